#include "cli/model_digest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace bass {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string weights(char filler, size_t n_bytes = 8 << 20) { return std::string(n_bytes, filler); }

class ModelDigestTest : public ::testing::Test {
 protected:
  void write_checkpoint(const std::string& name, const std::string& config, const std::string& bytes) const {
    write(folder_ / name / "config.json", config);
    write(folder_ / name / "tokenizer.json", "{}");
    write(folder_ / name / "model.safetensors", bytes);
  }
  [[nodiscard]] std::string digest(const std::string& name) const {
    const Result<std::string> digest = model_digest((folder_ / name).string());
    EXPECT_TRUE(digest.ok()) << digest.status().message();
    return digest.ok() ? digest.value() : "";
  }

  testing::TempFolder temp_;
  std::filesystem::path folder_ = temp_.path();
};

TEST_F(ModelDigestTest, TellsCheckpointsOfOneNameAndSizeApart) {
  write_checkpoint("a/final", "{}", weights('a'));
  write_checkpoint("b/final", "{}", weights('b'));
  write_checkpoint("c/final", "[]", weights('a'));
  std::string trained_on = weights('a');
  for (size_t i = trained_on.size() / 2; i < trained_on.size() / 2 + 100'000; ++i) trained_on[i] = 'x';
  write_checkpoint("d/final", "{}", trained_on);
  write_checkpoint("moved", "{}", weights('a'));
  EXPECT_NE(digest("a/final"), digest("b/final"));
  EXPECT_NE(digest("a/final"), digest("c/final"));
  EXPECT_NE(digest("a/final"), digest("d/final"));
  EXPECT_EQ(digest("a/final"), digest("moved"));
  EXPECT_EQ(digest("a/final"), digest("a/final/model.safetensors"));
  EXPECT_EQ(digest("a/final").size(), 16);
  write(folder_ / "moved" / "README.md", "notes");
  EXPECT_EQ(digest("a/final"), digest("moved")) << "what is no part of the model counts";
}

TEST_F(ModelDigestTest, AChatTemplateIsPartOfTheModel) {
  write_checkpoint("chat", "{}", weights('a'));
  write(folder_ / "chat" / "chat_template.jinja", "{{ messages[0].content }}");
  const std::string before = digest("chat");
  write(folder_ / "chat" / "chat_template.jinja", "{{ messages[0].content * 2 }}");
  EXPECT_NE(digest("chat"), before);
}

TEST_F(ModelDigestTest, TellsWhatCannotBeRead) {
  EXPECT_FALSE(model_digest((folder_ / "none.gguf").string()).ok());
  write(folder_ / "bad.gguf", "no model");
  EXPECT_EQ(model_digest((folder_ / "bad.gguf").string()).status().code(), StatusCode::kInvalidFile);
}

}  // namespace
}  // namespace bass
