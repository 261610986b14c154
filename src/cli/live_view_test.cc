#include "cli/live_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>

#include "cli/terminal_text.h"

namespace bass {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

GenerationResult make_result(int n_choices) {
  GenerationResult result;
  result.total_s = 1;
  PromptResult prompt;
  for (int i = 0; i < n_choices; ++i) {
    ChoiceResult choice;
    choice.index = i;
    choice.text = "def f(x):\n    return 漢字 \x1b[2J😀";
    choice.add({1, -1, TokenOrigin::kAccepted});
    choice.token_ends.push_back(choice.text.size());
    choice.is_finished = i % 2 == 1;
    prompt.choices.push_back(choice);
  }
  result.prompts.push_back(prompt);
  return result;
}

class LiveViewTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr); }
};

TEST_F(LiveViewTest, FitsEverySize) {
  const GenerationResult result = make_result(12);
  for (int n_columns = 1; n_columns < 100; ++n_columns) {
    for (const int n_rows : {1, 2, 4, 10, 24, 50}) {
      const LiveFrame frame = make_live_frame(result, {n_columns, n_rows}, false, false);
      EXPECT_LE(frame.lines.size(), static_cast<size_t>(std::max(2, n_rows - 1)));
      for (const std::string& line : frame.lines) {
        EXPECT_LE(n_columns_of(line), std::max(1, n_columns - 1));
        EXPECT_EQ(line.find('\x1b'), std::string::npos) << "the model's escape must not get through";
      }
    }
  }
}

TEST_F(LiveViewTest, ShowsRunningSequencesFirst) {
  const LiveFrame frame = make_live_frame(make_result(6), {80, 5}, false, false);
  ASSERT_EQ(frame.lines.size(), 4u);
  EXPECT_THAT(frame.lines[0], HasSubstr("    0 "));
  EXPECT_THAT(frame.lines[1], HasSubstr("    2 "));
  EXPECT_THAT(frame.lines[2], HasSubstr("    4 "));
  EXPECT_THAT(frame.lines[3], HasSubstr("6 tokens/s"));
}

TEST_F(LiveViewTest, SaysHowLongTheRestTakes) {
  GenerationResult result = make_result(6);
  const auto figures = [&] { return make_live_frame(result, {100, 24}, false, false).lines.back(); };
  EXPECT_THAT(figures(), EndsWith("3 running, 0 waiting, 3 done, 1.0 s")) << "what runs may end at any time";
  for (int i = 0; i < 6; ++i) result.prompts[0].choices.emplace_back();
  EXPECT_THAT(figures(), EndsWith("3 running, 6 waiting, 3 done, 1.0 s  4 s left"));
  result.prompts[0].choices[1].is_finished = false;
  EXPECT_THAT(figures(), EndsWith("4 running, 6 waiting, 2 done, 1.0 s")) << "those that are short end first";
}

TEST_F(LiveViewTest, ColoursTokensByOrigin) {
  const LiveFrame frame = make_live_frame(make_result(1), {80, 24}, true, true);
  EXPECT_THAT(frame.lines[0], HasSubstr("\x1b[32m"));
  EXPECT_THAT(frame.lines[1], HasSubstr("correction"));
  EXPECT_EQ(make_live_frame(make_result(1), {80, 24}, true, false).lines[0].find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace bass
