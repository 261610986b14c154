#include "text/stop_strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace bass {
namespace {

using ::testing::HasSubstr;

StopMatcher matcher_of(const std::vector<std::string>& stops) { return StopMatcher::create(stops).value(); }

void expect_push(StopMatcher& matcher, std::string_view text, std::string_view safe, bool stopped) {
  std::string shown;
  EXPECT_EQ(matcher.push(text, &shown), stopped) << text;
  EXPECT_EQ(shown, safe) << text;
}

std::string flush(StopMatcher& matcher) {
  std::string rest;
  matcher.flush(&rest);
  return rest;
}

TEST(StopMatcherTest, WithoutStopStringsEverythingPasses) {
  StopMatcher matcher = matcher_of({});
  expect_push(matcher, "abc", "abc", false);
  EXPECT_EQ(flush(matcher), "");
}

TEST(StopMatcherTest, CopiesHaveTextsOfTheirOwn) {
  StopMatcher first = matcher_of({"END"});
  StopMatcher second = first;
  expect_push(first, "EN", "", false);
  StopMatcher third = first;
  second.make_room(8);
  expect_push(second, "D", "D", false);
  expect_push(first, "D", "", true);
  expect_push(third, "d", "ENd", false);
}

TEST(StopMatcherTest, RefusesMoreThanCanBeLookedFor) {
  const std::string longest(StopMatcher::kMaxBytes, 'x');
  EXPECT_TRUE(StopMatcher::create({longest}).ok());
  EXPECT_THAT(StopMatcher::create({longest + "x"}).status().message(), HasSubstr("65537 bytes"));
  EXPECT_THAT(StopMatcher::create({longest, "x"}).status().message(), HasSubstr("2 stop strings of 65537 bytes"));
  std::vector<std::string> many(StopMatcher::kMaxStrings, "x");
  EXPECT_TRUE(StopMatcher::check(many).ok());
  many.emplace_back("x");
  EXPECT_THAT(StopMatcher::check(many).message(), HasSubstr("257 stop strings"));
}

TEST(StopMatcherTest, FindsAcrossPushes) {
  StopMatcher matcher = matcher_of({"\n\nEND"});
  expect_push(matcher, "text\n", "text", false);
  expect_push(matcher, "\n", "", false);
  expect_push(matcher, "EN", "", false);
  expect_push(matcher, "D more", "", true);
  expect_push(matcher, "even more", "", true);
  EXPECT_EQ(flush(matcher), "");
}

TEST(StopMatcherTest, LetsGoWhatWasNoStopString) {
  StopMatcher matcher = matcher_of({"abac"});
  expect_push(matcher, "xaba", "x", false);
  expect_push(matcher, "b", "ab", false);  // "ab" may begin again
  expect_push(matcher, "ac", "", true);
}

TEST(StopMatcherTest, FlushGivesTheRest) {
  StopMatcher matcher = matcher_of({"stop"});
  expect_push(matcher, "no sto", "no ", false);
  EXPECT_EQ(flush(matcher), "sto");
  expect_push(matcher, "p", "p", false);
}

TEST(StopMatcherTest, TheFirstToBeCompleteWins) {
  StopMatcher matcher = matcher_of({"abcd", "bc"});
  expect_push(matcher, "xabcd", "xa", true);
  StopMatcher longest = matcher_of({"c", "abc"});
  expect_push(longest, "xabc", "x", true);
}

TEST(StopMatcherTest, KeepsCharactersWhole) {
  StopMatcher matcher = matcher_of({"\u00e9!"});
  expect_push(matcher, "\u00e8\u00e9", "\u00e8", false);
  expect_push(matcher, "?", "\u00e9?", false);
}

TEST(StopMatcherTest, RefusesBadStopStrings) {
  EXPECT_THAT(StopMatcher::create({"a", ""}).status().message(), HasSubstr("empty"));
  EXPECT_THAT(StopMatcher::create({"\xFF"}).status().message(), HasSubstr("UTF-8"));
}

/// What the whole text becomes: cut before the stop string that is complete first.
std::optional<std::string> cut_naively(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t n_longest = 0;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) n_longest = std::max(n_longest, stop.size());
    }
    if (n_longest > 0) return text.substr(0, end - n_longest);
  }
  return std::nullopt;
}

TEST(StopMatcherTest, AgreesWithTheDefinitionHoweverTheTextIsCut) {
  std::mt19937 random(13);  // NOLINT(cert-msc51-cpp): the same cases each run
  const auto random_text = [&](size_t len) {
    std::string text(len, 'a');
    for (char& c : text) c = "ab"[random() % 2];
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = random_text(2 + random() % 5);
    const std::string text = random_text(random() % 30);
    StopMatcher matcher = matcher_of(stops);
    std::string shown;
    bool stopped = false;
    for (size_t at = 0; at < text.size() && !stopped;) {
      const size_t n = 1 + random() % 4;
      stopped = matcher.push(std::string_view(text).substr(at, n), &shown);
      at += n;
    }
    matcher.flush(&shown);
    const std::optional<std::string> expected = cut_naively(text, stops);
    ASSERT_EQ(stopped, expected.has_value());
    ASSERT_EQ(shown, expected.value_or(text));
  }
}

}  // namespace
}  // namespace bass
