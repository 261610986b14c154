#include "cli/hub/hub_name.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(HubNameTest, HasRepositoryRevisionAndFile) {
  const auto plain = parse_hub_name("org/Model-1.5_x");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->repo, "org/Model-1.5_x");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(plain->file, "");
  const auto full = parse_hub_name("org/model@refs/pr/1:sub/a b@c:d.gguf");
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->repo, "org/model");
  EXPECT_EQ(full->revision, "refs/pr/1");
  EXPECT_EQ(full->file, "sub/a b@c:d.gguf");
  EXPECT_EQ(full->text(), "org/model@refs/pr/1:sub/a b@c:d.gguf");
}

TEST(HubNameTest, OtherFormsAreNone) {
  for (const char* text :
       {"",           "smollm2",     "/model",      "org/",       "org/a/b",     "./model",    "../model",
        "org/..",     "org/.hidden", "-org/a",      "org/a-",     "org/a--b",    "org/a b",    "org/a\n",
        "org/ä",      "org/a.git",   "org/a:",      "org/a@",     "org/a@../b",  "org/a:../b", "org/a:/b",
        "org/a:b//c", "org/a:b/./c", "org/a:b\x01", "org/a:b\\c", "/etc/passwd", "~/model/a"}) {
    EXPECT_FALSE(parse_hub_name(text).has_value()) << text;
  }
  EXPECT_FALSE(parse_hub_name("org/" + std::string(100, 'a')).has_value());
  EXPECT_FALSE(parse_hub_name("org/a:" + std::string(256, 'a')).has_value());
}

TEST(HubNameTest, HashesAreLowerCaseDigits) {
  EXPECT_TRUE(is_commit(std::string(40, 'a')));
  EXPECT_FALSE(is_commit(std::string(39, 'a')));
  EXPECT_FALSE(is_commit(std::string(40, 'A')));
  EXPECT_FALSE(is_commit(std::string(40, 'g')));
}

}  // namespace
}  // namespace bass
