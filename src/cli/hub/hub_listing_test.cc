#include "cli/hub/hub_listing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string listing(std::string_view siblings) {
  return fmt::format(R"({{"id": "org/model", "sha": "{}", "siblings": [{}]}})", kCommit, siblings);
}

std::string error_of(std::string_view siblings) { return parse_hub_listing(listing(siblings)).status().message(); }

TEST(HubListingTest, LargeFilesAreNamedByTheirSha256) {
  const std::string sha1(40, '1'), sha256(64, '2');
  const Result<HubListing> result = parse_hub_listing(listing(fmt::format(
      R"({{"rfilename": "b.gguf", "size": 7, "blobId": "{}", "lfs": {{"sha256": "{}", "size": 7, "pointerSize": 130}}}},
         {{"rfilename": "a/c.json", "size": 5, "blobId": "{}", "lfs": null}}, {{"rfilename": "d"}})",
      sha1, sha256, sha1)));
  ASSERT_TRUE(result.ok()) << result.status().message();
  const HubListing& found = result.value();
  EXPECT_EQ(found.commit, kCommit);
  ASSERT_EQ(found.files.size(), 3);
  EXPECT_EQ(found.files[0].name, "a/c.json");
  EXPECT_EQ(found.files[0].blob, sha1);
  EXPECT_EQ(found.files[0].n_bytes, 5);
  EXPECT_EQ(found.find("b.gguf")->blob, sha256);
  EXPECT_EQ(found.find("d")->blob, "");
  EXPECT_EQ(found.find("d")->n_bytes, -1);
  EXPECT_EQ(found.find("e"), nullptr);
}

TEST(HubListingTest, WhatCannotBeIsAnError) {
  EXPECT_THAT(error_of(R"({"rfilename": "../a"})"), HasSubstr("'../a' is no name for a file"));
  EXPECT_THAT(error_of(R"({"rfilename": "a", "size": -1})"), HasSubstr("a has the size -1"));
  EXPECT_THAT(error_of(R"({"rfilename": "a", "size": 18446744073709551615})"), HasSubstr("a has the size"));
  EXPECT_THAT(error_of(R"({"rfilename": "a", "blobId": "../x"})"), HasSubstr("the blobId of a is no hash"));
  EXPECT_THAT(error_of(R"({"rfilename": "a", "lfs": {"sha256": "x"}})"), HasSubstr("the sha256 of a is no hash"));
  EXPECT_THAT(parse_hub_listing(R"({"sha": "main"})").status().message(), HasSubstr("key 'sha'"));
  EXPECT_THAT(parse_hub_listing("<html>").status().message(), HasSubstr("not valid JSON"));
  EXPECT_EQ(parse_hub_listing("").status().code(), StatusCode::kUnavailable);
}

TEST(HubListingTest, RevisionsAreBranchesAndTags) {
  EXPECT_THAT(parse_hub_revisions(R"({"branches": [{"name": "main"}, 1, {"name": 2}], "tags": [{"name": "v1"}]})"),
              ElementsAre("main", "v1"));
  EXPECT_THAT(parse_hub_revisions(R"({"branches": 1, "tags": null})"), ElementsAre());
  EXPECT_THAT(parse_hub_revisions("<html>"), ElementsAre());
}

TEST(HubListingTest, AnIndexNamesItsFilesOnce) {
  const auto names = parse_weight_index(R"({"metadata": {}, "weight_map": {"x": "b", "y": "a", "z": "b"}})");
  ASSERT_TRUE(names.ok()) << names.status().message();
  EXPECT_THAT(names.value(), ElementsAre("a", "b"));
  for (const char* text :
       {"", "{}", "[]", R"({"weight_map": {}})", R"({"weight_map": {"x": 1}})", R"({"weight_map": {"x": "../b"}})"}) {
    EXPECT_EQ(parse_weight_index(text).status().code(), StatusCode::kInvalidFile) << text;
  }
}

}  // namespace
}  // namespace bass
