#include "cli/hub/http_client.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(HttpClientTest, KnowsOrigins) {
  EXPECT_TRUE(is_same_origin("https://Hub.example/a", "https://hub.example:443/b?c"));
  EXPECT_TRUE(is_same_origin("http://127.0.0.1:80/", "http://127.0.0.1/x"));
  EXPECT_FALSE(is_same_origin("https://hub.example/a", "http://hub.example/a"));
  EXPECT_FALSE(is_same_origin("https://hub.example/a", "https://hub.example:8443/a"));
  EXPECT_FALSE(is_same_origin("https://hub.example/a", "https://cdn.hub.example/a"));
  EXPECT_FALSE(is_same_origin("https://hub.example/a", "https://hub.example@other.example/a"));
  EXPECT_FALSE(is_same_origin("", "")) << "what is no URL has no origin";
}

TEST(HttpClientTest, QuotesWhatUrlsMustNotHold) {
  EXPECT_EQ(url_quoted("a b/ü%?#&+~.gguf", true), "a%20b/%C3%BC%25%3F%23%26%2B~.gguf");
  EXPECT_EQ(url_quoted("refs/pr/1", false), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace bass
