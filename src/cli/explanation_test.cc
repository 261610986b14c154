#include "cli/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

constexpr auto kRegular = SpeculationAccount::kRegular;
constexpr auto kNgram = SpeculationAccount::kNgram;
constexpr auto kModel = SpeculationAccount::kModel;

StepKindSums kind_of(double step_s, double draft_s, double regular_s) {
  StepKindSums kind;
  kind.n_steps = 10;
  kind.draft_s = draft_s;
  kind.step_s = step_s;
  kind.regular_s = regular_s;
  return kind;
}

GenerationResult result_of(const StepKindSums& ngram, const StepKindSums& model) {
  GenerationResult result;
  result.draft = "draft.gguf";
  result.stats.speculation.rounds = 20;
  result.stats.account.kinds = {kind_of(1, 0, 1), ngram, model};
  return result;
}

GenerateOptions options_of(const std::string& draft_length) {
  GenerateOptions options;
  options.request.speculation.draft_length = draft_length;
  return options;
}

const StepKindSums kNone{};
const StepKindSums kGood = kind_of(1, 0.5, 3);
const StepKindSums kBad = kind_of(2, 1, 1);

TEST(Explanation, SaysWhetherSpeculationPaid) {
  const GenerateOptions options = options_of("goodput");
  EXPECT_EQ(conclusion(result_of(kNone, kGood), options),
            "Speculation paid: 1.60 times as fast as regular decoding, 1.5 s saved.");
  EXPECT_THAT(conclusion(result_of(kGood, kBad), options_of("fixed:4")),
              HasSubstr("did not pay: 0.91 times as fast as regular decoding, 0.5 s lost. --draft-length goodput"));
  EXPECT_THAT(conclusion(result_of(kNone, kind_of(1, 0, 1.01)), options), HasSubstr("made no difference"));
}

// Greedy decoding compares tokens whatever rule is named.
TEST(Explanation, NamesTheRuleThatIsUsed) {
  GenerateOptions options = options_of("goodput");
  EXPECT_THAT(explanation_text(result_of(kNone, kGood), options), HasSubstr("verification block"));
  options.request.seed = 1;
  EXPECT_THAT(explanation_text(result_of(kNone, kGood), options), HasSubstr("verification match"));
  options.request.speculation.verify = VerifyRule::kRejection;
  EXPECT_THAT(explanation_text(result_of(kNone, kGood), options), HasSubstr("verification rejection"));
  options.request.sampling.temperature = 0;
  EXPECT_THAT(explanation_text(result_of(kNone, kGood), options), HasSubstr("verification match"));
}

TEST(Explanation, SaysWhatADraftedTokenCosts) {
  const GenerateOptions options = options_of("goodput");
  GenerationResult result = result_of(kNone, kGood);
  EXPECT_THAT(explanation_text(result, options), Not(HasSubstr("A drafted token"))) << "no step could be told";
  result.stats.account.n_priced = 4;
  result.stats.account.row_price = 1.0;
  EXPECT_THAT(explanation_text(result, options),
              HasSubstr("A drafted token took as long as 0.25 tokens of regular decoding: it pays if"));
  result.stats.account.pass_price = 4.0;
  EXPECT_THAT(
      explanation_text(result, options),
      HasSubstr("1.25 tokens of regular decoding (0.25 for its row of a step, 1.00 for the draft model): none"));
}

TEST(Explanation, AdvisesWhatToLeaveOut) {
  GenerateOptions options = options_of("goodput");
  EXPECT_THAT(conclusion(result_of(kNone, kBad), options), HasSubstr("The draft model does not pay: leave -d out."));
  EXPECT_THAT(conclusion(result_of(kBad, kBad), options), HasSubstr("--drafter off"));
  EXPECT_THAT(conclusion(result_of(kBad, kNone), options), HasSubstr("--drafter off"));
  options.is_draft_shipped = true;
  EXPECT_THAT(conclusion(result_of(kNone, kBad), options), HasSubstr("--drafter ngram does without it"));
}

TEST(Explanation, NamesADrafterThatLosesWhileSpeculationPays) {
  const GenerateOptions options = options_of("goodput");
  const StepKindSums best = kind_of(1, 0, 9);
  EXPECT_THAT(conclusion(result_of(best, kBad), options),
              HasSubstr("The draft model did not pay where it drafted (0.33 times as fast): leave -d out."));
  EXPECT_THAT(conclusion(result_of(kBad, best), options), HasSubstr("n-grams did not pay (0.33 times as fast)."));
  EXPECT_THAT(conclusion(result_of(best, kNone), options), HasSubstr("never used: leave -d out."));
  GenerationResult without = result_of(best, kNone);
  without.draft.reset();
  EXPECT_THAT(conclusion(without, options), Not(HasSubstr("draft model")));
}

TEST(Explanation, ClaimsNoGainOverStepsThatWereNeverMeasured) {
  GenerationResult result = result_of(kNone, kGood);
  result.stats.account.kinds[kModel].n_guessed = 10;
  EXPECT_THAT(conclusion(result, options_of("goodput")), HasSubstr("cannot be told"));
  result.stats.account.kinds[kModel] = kBad;
  result.stats.account.kinds[kModel].n_guessed = 10;
  EXPECT_THAT(conclusion(result, options_of("goodput")), HasSubstr("did not pay")) << "regular decoding is faster yet";
}

TEST(Explanation, ClaimsNothingWherePredictionsWereFarOff) {
  GenerationResult result = result_of(kNone, kGood);
  result.stats.account.sizes[0] = {4, 2.0, 1.8};
  result.stats.account.step_error_s = 0.8;
  EXPECT_THAT(conclusion(result, options_of("goodput")), HasSubstr("Speculation paid"));
  result.stats.account.step_error_s = 1.2;
  EXPECT_THAT(conclusion(result, options_of("goodput")), HasSubstr("cannot be told: predictions were off by 60 %"));
  result.stats.account.kinds[kModel] = kBad;
  EXPECT_THAT(conclusion(result, options_of("goodput")), Not(HasSubstr("did not pay")));
}

TEST(Explanation, NothingDraftedHasItsReasons) {
  GenerationResult result = result_of(kNone, kNone);
  result.stats.speculation.rounds = 0;
  EXPECT_THAT(conclusion(result, options_of("goodput")),
              HasSubstr("expected to pay. The draft model only took memory"));
  result.stats.account.kinds[kModel] = {.n_steps = 1, .draft_s = 0.2, .step_s = 0.3};
  result.stats.account.kinds[SpeculationAccount::kRegular] = {.n_steps = 9, .step_s = 1.5};
  EXPECT_THAT(conclusion(result, options_of("goodput")),
              HasSubstr("The draft model took memory and 10 % of decoding, to be looked at: leave -d out."));
  EXPECT_EQ(conclusion(result, options_of("off")), "Nothing was drafted: speculation was off.");
}

TEST(Explanation, WarnsInASummaryOfDraftsThatDidNotPay) {
  const GenerateOptions options = options_of("goodput");
  const auto long_run = [](GenerationResult result) {
    result.stats.decode_steps = 200;
    return result;
  };
  EXPECT_EQ(draft_warning(long_run(result_of(kNone, kGood)), options), std::nullopt);
  EXPECT_THAT(draft_warning(long_run(result_of(kNone, kBad)), options),
              Optional(HasSubstr("The draft model does not pay: leave -d out.")));
  EXPECT_EQ(draft_warning(long_run(result_of(kGood, kNone)), options), "The draft model was never used: leave -d out.");
  EXPECT_EQ(draft_warning(result_of(kNone, kBad), options), std::nullopt) << "a few steps tell nothing";

  GenerationResult unused = long_run(result_of(kNone, kNone));
  unused.stats.speculation.rounds = 0;
  EXPECT_THAT(draft_warning(unused, options), Optional(HasSubstr("The draft model only took memory: leave -d out.")));
  for (const char* nothing : {"off", "fixed:0"}) EXPECT_EQ(draft_warning(unused, options_of(nothing)), std::nullopt);
  unused.draft.reset();
  EXPECT_EQ(draft_warning(unused, options), std::nullopt) << "n-grams cost nothing";
}

TEST(Explanation, PartsAddUpAndTheErrorIsRelative) {
  EngineStats stats = result_of(kGood, kBad).stats;
  stats.account.kinds[kRegular].rest_s = 0.25;
  stats.account.sizes[0] = {4, 2.0, 1.8};
  stats.account.sizes[5] = {4, 2.0, 2.6};
  stats.account.step_error_s = 1.0;
  stats.account.n_draft_passes = 100;
  const Explanation explanation = explain(stats);
  EXPECT_DOUBLE_EQ(explanation.decode_s, 1 + 0.25 + 1.5 + 3);
  EXPECT_DOUBLE_EQ(
      explanation.draft_s + explanation.drafted_steps_s + explanation.regular_steps_s + explanation.other_s,
      explanation.decode_s);
  EXPECT_DOUBLE_EQ(*explanation.step_error, 0.25);
  EXPECT_DOUBLE_EQ(*explanation.draft_pass_ms, 15);
  EXPECT_DOUBLE_EQ(*explanation.speedup_of[kNgram], 2);
  EXPECT_EQ(explain({}).speedup, std::nullopt);
}

}  // namespace
}  // namespace bass
