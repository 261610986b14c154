#include "cli/hub/incomplete_blob.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/temp_folder.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

// As `sha256sum` and `git hash-object` have them.
constexpr const char* kSha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kGitHash = "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f";

class IncompleteBlobTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string contents(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }
  [[nodiscard]] Result<std::unique_ptr<IncompleteBlob>> open(const std::string& hash) const {
    return IncompleteBlob::open(folder_ / "blob", {.name = "file", .n_bytes = 3, .blob = hash});
  }

  testing::TempFolder folder_;
};

TEST_F(IncompleteBlobTest, WhatIsWholeAndRightGetsItsName) {
  for (const char* hash : {kSha256, kGitHash}) {
    auto blob = open(hash);
    ASSERT_TRUE(blob.ok());
    EXPECT_TRUE(blob.value()->write(std::string_view("ab")).ok());
    EXPECT_FALSE(blob.value()->is_whole());
    EXPECT_FALSE(fs::exists(folder_ / "blob"));
    EXPECT_TRUE(blob.value()->write(std::string_view("c")).ok());
    EXPECT_TRUE(blob.value()->keep().ok()) << hash;
    EXPECT_EQ(contents("blob"), "abc");
    EXPECT_FALSE(fs::exists(folder_ / "blob.incomplete"));
    fs::remove(folder_ / "blob");
  }
}

TEST_F(IncompleteBlobTest, WhatAnEarlierRunLeftIsTakenUp) {
  EXPECT_TRUE(open(kSha256).value()->write(std::string_view("a")).ok());
  auto blob = open(kSha256);
  EXPECT_EQ(blob.value()->n_bytes(), 1);
  EXPECT_TRUE(blob.value()->write(std::string_view("bc")).ok());
  EXPECT_TRUE(blob.value()->keep().ok());
}

TEST_F(IncompleteBlobTest, WhatIsLeftKeepsNoMoreSpaceThanItHas) {
  constexpr int64_t kMuch = int64_t{64} << 20;
  const auto n_blocks = [this] {
    struct stat info {};
    EXPECT_EQ(stat((folder_ / "blob.incomplete").c_str(), &info), 0);
    return info.st_blocks;
  };
  auto blob = IncompleteBlob::open(folder_ / "blob", {.name = "file", .n_bytes = kMuch, .blob = kSha256});
  ASSERT_TRUE(blob.ok());
  EXPECT_TRUE(blob.value()->write(std::string_view("a")).ok());
  const auto n_reserved = n_blocks();
  blob.value().reset();
  EXPECT_EQ(contents("blob.incomplete"), "a");
  EXPECT_LT(512 * n_blocks(), 1 << 20);
  if (512 * n_reserved < kMuch) GTEST_SKIP() << "this file system reserves nothing";
}

TEST_F(IncompleteBlobTest, WhatIsTooLongStartsOver) {
  std::ofstream(folder_ / "blob.incomplete") << "abcd";
  auto blob = open(kSha256);
  EXPECT_EQ(blob.value()->n_bytes(), 0);
  EXPECT_EQ(fs::file_size(folder_ / "blob.incomplete"), 0);
  EXPECT_EQ(blob.value()->write(std::string_view("abcd")).code(), StatusCode::kUnavailable);
}

TEST_F(IncompleteBlobTest, WrongBytesAreRemoved) {
  for (const char* hash : {kSha256, kGitHash}) {
    auto blob = open(hash);
    EXPECT_TRUE(blob.value()->write(std::string_view("abd")).ok());
    EXPECT_EQ(blob.value()->keep().code(), StatusCode::kInvalidFile);
    EXPECT_FALSE(fs::exists(folder_ / "blob"));
    EXPECT_FALSE(fs::exists(folder_ / "blob.incomplete"));
  }
}

}  // namespace
}  // namespace bass
