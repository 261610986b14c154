#include "cli/hub/hub_cache.h"

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

class HubCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"}) unsetenv(name);
    setenv("HF_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override { unsetenv("HF_HOME"); }
  /// Puts a blob into the cache and a link to it into the snapshot.
  void add(const std::string& name, const std::string& contents, const std::string& blob) const {
    ASSERT_TRUE(cache_.make_folders().ok());
    std::ofstream(cache_.blob_path(blob)) << contents;
    ASSERT_TRUE(cache_.link(commit_, {.name = name, .n_bytes = 3, .blob = blob}).ok());
  }

  testing::TempFolder folder_;
  HubCache cache_{folder_ / "hub", "org/model"};
  std::string commit_ = std::string(40, 'c');
};

TEST_F(HubCacheTest, ItsPlaceIsThatOfThePythonPackage) {
  EXPECT_EQ(hub_cache_folder(), folder_ / "hub");
  setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(hub_cache_folder(), "/old");
  setenv("HF_HUB_CACHE", "~/new", 1);
  EXPECT_EQ(hub_cache_folder(), std::string(std::getenv("HOME")) + "/new");
  unsetenv("HF_HUB_CACHE");
  unsetenv("HUGGINGFACE_HUB_CACHE");
  unsetenv("HF_HOME");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(hub_cache_folder(), "/cache/huggingface/hub");
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(HubCacheTest, FilesAreLinksToBlobs) {
  add("sub/a.gguf", "abc", "b1");
  const fs::path path = fs::path(cache_.snapshot_path(commit_)) / "sub/a.gguf";
  EXPECT_EQ(fs::read_symlink(path), "../../../blobs/b1");
  EXPECT_TRUE(cache_.has_file(commit_, {.name = "sub/a.gguf", .n_bytes = 3, .blob = "b1"}));
  EXPECT_FALSE(cache_.has_file(commit_, {.name = "sub/a.gguf", .n_bytes = 4, .blob = "b1"})) << "cut";
  EXPECT_FALSE(cache_.has_file(commit_, {.name = "sub/a.gguf", .n_bytes = 3, .blob = "b2"})) << "other contents";
  add("sub/a.gguf", "xyz", "b2");
  EXPECT_EQ(fs::read_symlink(path), "../../../blobs/b2") << "a link is replaced";
}

TEST_F(HubCacheTest, RevisionsAreCommits) {
  EXPECT_EQ(cache_.commit_of("main"), "");
  EXPECT_TRUE(cache_.write_revision("refs/pr/1", commit_).ok());
  EXPECT_EQ(cache_.commit_of("refs/pr/1"), commit_);
  EXPECT_EQ(cache_.commit_of(commit_), commit_);
  std::ofstream(folder_ / "hub/models--org--model/refs/bad") << "../../../etc";
  EXPECT_EQ(cache_.commit_of("bad"), "");
}

TEST_F(HubCacheTest, FindsWhatWasFetched) {
  EXPECT_EQ(find_in_hub_cache({.repo = "org/model"}).status().code(), StatusCode::kUnavailable);
  add("a-Q4_0.gguf", "abc", "b1");
  EXPECT_EQ(find_in_hub_cache({.repo = "org/model"}).status().code(), StatusCode::kUnavailable) << "no revision yet";
  ASSERT_TRUE(cache_.write_revision("main", commit_).ok());
  EXPECT_EQ(find_in_hub_cache({.repo = "org/model"}).value(), cache_.snapshot_path(commit_) + "/a-Q4_0.gguf");
  add("a-Q8_0.gguf", "abc", "b1");
  EXPECT_EQ(find_in_hub_cache({.repo = "org/model"}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(find_in_hub_cache({.repo = "org/model", .file = "q8_0"}).value(),
            cache_.snapshot_path(commit_) + "/a-Q8_0.gguf");
  fs::remove(cache_.blob_path("b1"));
  EXPECT_EQ(find_in_hub_cache({.repo = "org/model"}).status().code(), StatusCode::kUnavailable) << "links to nothing";
}

TEST_F(HubCacheTest, ACheckpointWithoutAShardIsNotWhole) {
  add("config.json", "{}", "b1");
  add("model.safetensors.index.json", R"({"weight_map": {"x": "m.safetensors"}})", "b2");
  ASSERT_TRUE(cache_.write_revision("main", commit_).ok());
  const Status status = find_in_hub_cache({.repo = "org/model"}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidFile);
  EXPECT_THAT(status.message(), HasSubstr("m.safetensors, which it names, is missing"));
  add("m.safetensors", "abc", "b3");
  EXPECT_EQ(find_in_hub_cache({.repo = "org/model"}).value(), cache_.snapshot_path(commit_));
}

TEST_F(HubCacheTest, LocksKeepOthersOut) {
  ASSERT_TRUE(cache_.make_folders().ok());
  const std::string path = cache_.lock_path("b1");
  EXPECT_EQ(path, folder_ / "hub/.locks/models--org--model/b1.lock");
  int n_waits = 0;
  for (int i = 0; i < 2; ++i) {  // a lock that was given back can be taken again
    EXPECT_TRUE(HubLock::take(path, [&] { ++n_waits; }).ok());
  }
  EXPECT_EQ(n_waits, 0);
  EXPECT_TRUE(fs::exists(path)) << "a lock that is removed is no lock for whoever waits for it";
}

TEST_F(HubCacheTest, AFolderThatCannotBeWrittenSaysWhatToSet) {
  std::ofstream(folder_ / "hub") << "a file";
  EXPECT_EQ(cache_.make_folders().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(cache_.make_folders().message(), HasSubstr("set HF_HOME"));
}

}  // namespace
}  // namespace bass
