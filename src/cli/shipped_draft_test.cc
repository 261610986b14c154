#include "cli/shipped_draft.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

class ShippedDraftTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("BASS_MODELS", folder_.c_str(), 1); }
  void TearDown() override { unsetenv("BASS_MODELS"); }
  GenerateOptions options_with(const std::string& model, DrafterChoice drafter) {
    std::ofstream(draft_) << "a draft";
    GenerateOptions options;
    options.engine.model_path = model;
    options.request.speculation.drafter = drafter;
    use_shipped_draft(&options);
    return options;
  }

  testing::TempFolder temp_folder_;
  fs::path folder_ = temp_folder_.path();
  std::string draft_ = folder_ / "smollm2-135m-draft.gguf";
};

TEST_F(ShippedDraftTest, IsFoundByTheModelsNameOnly) {
  EXPECT_NE(find_shipped_draft("smollm2"), draft_) << "there is no such file yet";
  std::ofstream(draft_) << "a draft";
  EXPECT_EQ(find_shipped_draft("smollm2"), draft_);
  for (const char* model : {"", "smollm", "./smollm2", "org/smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"}) {
    EXPECT_EQ(find_shipped_draft(model), std::nullopt) << model;
  }
}

TEST_F(ShippedDraftTest, AFolderIsNoDraft) {
  fs::create_directory(draft_);
  EXPECT_NE(find_shipped_draft("smollm2"), draft_);
}

TEST_F(ShippedDraftTest, IsUsedByTheDraftersThatUseAModel) {
  for (const DrafterChoice drafter : {DrafterChoice::kAuto, DrafterChoice::kModel}) {
    GenerateOptions options = options_with("smollm2", drafter);
    EXPECT_EQ(options.engine.draft_path, draft_);
    EXPECT_TRUE(options.is_draft_shipped);
    drop_shipped_draft(&options);
    EXPECT_EQ(options.engine.draft_path, "");
    EXPECT_FALSE(options.is_draft_shipped);
  }
  for (const DrafterChoice drafter : {DrafterChoice::kNgram, DrafterChoice::kOff}) {
    EXPECT_EQ(options_with("smollm2", drafter).engine.draft_path, "");
  }
  EXPECT_FALSE(options_with("other.gguf", DrafterChoice::kAuto).is_draft_shipped);
}

TEST_F(ShippedDraftTest, TheOneThatIsNamedStays) {
  std::ofstream(draft_) << "a draft";
  GenerateOptions options;
  options.engine.model_path = "smollm2";
  options.engine.draft_path = "mine.gguf";
  use_shipped_draft(&options);
  drop_shipped_draft(&options);
  EXPECT_EQ(options.engine.draft_path, "mine.gguf");
  EXPECT_FALSE(options.is_draft_shipped);
}

}  // namespace
}  // namespace bass
