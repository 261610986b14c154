#include "cli/key_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/interrupt.h"

namespace bass {
namespace {

class KeyReaderTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_), 0); }
  void TearDown() override {
    close(ends_[0]);
    if (ends_[1] >= 0) close(ends_[1]);
  }

  void type(std::string_view bytes) const {
    ASSERT_EQ(write(ends_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void end() { close(std::exchange(ends_[1], -1)); }

  std::u32string rest(KeyReader* keys) const {
    std::u32string text;
    while (const std::optional<char32_t> key = keys->next()) text += *key;
    return text;
  }

  int ends_[2] = {-1, -1};  // of a pipe: read, written
};

TEST_F(KeyReaderTest, DecodesUpToTheEnd) {
  KeyReader keys(ends_[0], [] {});
  type("a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80\x03\n");
  end();
  EXPECT_EQ(rest(&keys), U"a\u00E9\u65E5\U0001F600\x03\n");
  EXPECT_FALSE(keys.next().has_value());
}

TEST_F(KeyReaderTest, WhatIsNoUtf8IsReplaced) {
  KeyReader keys(ends_[0], [] {});
  type(
      "a\xFF"
      "b\xE6\x97"
      "c\xE6\x97");
  end();
  EXPECT_EQ(rest(&keys),
            U"a\uFFFD"
            U"b\uFFFD"
            U"c\uFFFD");
}

TEST_F(KeyReaderTest, WaitsForTheRestOfACharacter) {
  int n_idle = 0;
  KeyReader keys(ends_[0], [&] {
    if (++n_idle == 1) type("\xA5");
  });
  type("\xE6\x97");
  EXPECT_EQ(keys.next(), U'\u65E5');
  EXPECT_EQ(n_idle, 1);
}

TEST_F(KeyReaderTest, KeepsTheOrderOfMoreThanItsBuffer) {
  KeyReader keys(ends_[0], [] {});
  std::u32string expected;
  for (int i = 0; i < 10'000; ++i) {
    const bool is_wide = i % 3 == 0;
    type(is_wide ? "\xE6\x97\xA5" : "x");
    expected += is_wide ? U'\u65E5' : U'x';
  }
  end();
  EXPECT_EQ(rest(&keys), expected);
}

// In processes of their own: a signal that has come stays come.

using KeyReaderDeathTest = KeyReaderTest;

TEST_F(KeyReaderDeathTest, AnInterruptIsAKeyAndIsForgotten) {
  const auto body = [this] {
    std::signal(SIGINT, SIG_DFL);  // ignored, as of a script's `command &`, it would stay so
    install_signal_handlers();
    KeyReader keys(ends_[0], [] {});
    std::raise(SIGINT);
    type("a");
    const bool is_right = keys.next() == kCtrlC && !is_interrupted() && keys.next() == U'a';
    std::exit(is_right ? 0 : 1);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

TEST_F(KeyReaderDeathTest, AnotherSignalIsTheEnd) {
  const auto body = [this] {
    install_signal_handlers();
    KeyReader keys(ends_[0], [] {});
    std::raise(SIGTERM);
    type("a");
    std::exit(!keys.next().has_value() && is_interrupted() ? 0 : 1);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bass
