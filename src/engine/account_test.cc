// What the engine counts of predictions and measurements: the sums of single steps, and on tiny models that all of
// decoding's time is accounted for.
#include "engine/account.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/engine_run.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

StepCosts costs_of(std::initializer_list<std::pair<int, double>> measured) {
  StepCosts costs;
  for (const auto& [n_rows, seconds] : measured) learn_step_cost({n_rows, seconds, true, 1, 1, 0.1}, &costs);
  return costs;
}

// 2 sequences, 4 tokens drafted by the model in 3 passes, 6 rows: predicted 1.6 s and 0.3 s, measured 2 s and 0.2 s.
StepFacts drafted_step(std::optional<double> expected) { return {{6, 2.0, true, 3, 4, 0.2}, {2}, 2, 5, 0.1, expected}; }

TEST(Account, AStepWithDraftsIsComparedWithItsPredictionAndWithRegularDecoding) {
  SpeculationAccount account;
  add_step(drafted_step(3.0), costs_of({{2, 1.2}, {6, 1.6}}), &account);
  const StepKindSums& kind = account.kinds[SpeculationAccount::kModel];
  EXPECT_EQ(kind.n_steps, 1);
  EXPECT_EQ(kind.n_tokens, 5);
  EXPECT_NEAR(kind.draft_s + kind.step_s + kind.rest_s, 2.3, 1e-9);
  EXPECT_NEAR(kind.regular_s, 2.5 * 1.2 + 0.1, 1e-6) << "5 tokens of 2 sequences are two and a half steps";
  EXPECT_NEAR(kind.expected_s, 1.6 + 0.3, 1e-6);
  EXPECT_NEAR(kind.expected_regular_s, 2.5 * 1.2, 1e-6) << "2 + 3 tokens were expected";
  EXPECT_EQ(kind.n_guessed, 0);
  EXPECT_EQ(account.sizes[4].n_steps, 1) << "5 or 6 rows";
  EXPECT_EQ(account.sizes[4].n_rows, 6);
  EXPECT_NEAR(account.sizes[4].predicted_s, 1.6, 1e-6);
  EXPECT_NEAR(account.step_error_s, 0.4, 1e-6);
  EXPECT_NEAR(account.predicted_draft_s, 0.3, 1e-6);
  EXPECT_EQ(account.n_draft_passes, 3);
  EXPECT_EQ(account.n_unpromising, 0);
}

TEST(Account, StepsThatWereNotExpectedToPayAreCounted) {
  SpeculationAccount account;
  add_step(drafted_step(1.0), costs_of({{2, 1.2}, {6, 1.6}}), &account);  // 3 tokens: 1.8 s of regular decoding
  EXPECT_EQ(account.n_unpromising, 1);
  EXPECT_NEAR(account.unpromising_s, 2.3, 1e-9);
  add_step(drafted_step(std::nullopt), costs_of({{2, 1.2}, {6, 1.6}}), &account);
  EXPECT_EQ(account.n_unpromising, 1) << "nobody expected anything";
  EXPECT_NEAR(account.kinds[SpeculationAccount::kModel].expected_s, 1.9, 1e-6);
}

TEST(Account, ADraftedTokenHasThePriceOfItsRowAndItsPass) {
  SpeculationAccount account;
  add_step({{2, 1.2, true}, {2}, 2, 2, 0.1, 0.0}, {}, &account);
  EXPECT_EQ(account.n_priced, 0) << "nothing was measured before";
  // Two rows more take half of a regular step, as one token does; a pass for both 0.1 s.
  add_step({{2, 1.2, true}, {2}, 2, 2, 0.1, 0.0}, costs_of({{2, 1.2}, {4, 1.8}}), &account);
  EXPECT_EQ(account.n_priced, 1);
  EXPECT_NEAR(account.row_price, 0.5, 1e-6);
  EXPECT_NEAR(account.pass_price, 0.1 / 1.2, 1e-6);
}

TEST(Account, ARegularStepIsItsOwnEstimate) {
  SpeculationAccount account;
  add_step({{2, 1.5, true, 1, 0, 0.25}, {2}, 2, 2, 0.1, 0.0}, costs_of({{2, 1.2}}), &account);
  const StepKindSums& kind = account.kinds[SpeculationAccount::kRegular];
  EXPECT_NEAR(kind.regular_s, 1.6, 1e-9) << "without the draft model's pass, which only caught up";
  EXPECT_NEAR(kind.draft_s, 0.25, 1e-9);
  EXPECT_EQ(kind.expected_s, 0);
}

TEST(Account, RegularDecodingWouldShareAStepWithSequencesThatEndedEarly) {
  SpeculationAccount account;
  const StepCosts costs = costs_of({{2, 1.2}, {4, 1.4}});
  add_step({{6, 2.0, true, 3, 4, 0.2}, {2}, 4, 5, 0.1, 3.0}, costs, &account);
  EXPECT_NEAR(account.kinds[SpeculationAccount::kModel].regular_s, 5 * 1.4 / 4 + 0.1, 1e-6);
  EXPECT_NEAR(account.kinds[SpeculationAccount::kModel].expected_regular_s, 2.5 * 1.2, 1e-6) << "of those that run";
  add_step({{2, 1.2, true}, {2}, 4, 2, 0.1, 0.0}, costs, &account);  // no drafts in this one
  EXPECT_NEAR(account.kinds[SpeculationAccount::kRegular].regular_s, 2 * 1.4 / 4 + 0.1, 1e-6);
}

TEST(Account, WithoutAMeasurementNothingIsPredictedAndRegularDecodingIsAGuess) {
  SpeculationAccount account;
  add_step({{6, 2.0, true}, {2}, 2, 5, 0.1, 3.0}, {}, &account);
  const StepKindSums& kind = account.kinds[SpeculationAccount::kNgram];
  EXPECT_NEAR(kind.regular_s, 2.1, 1e-9) << "neither gain nor loss is claimed";
  EXPECT_EQ(kind.n_guessed, 1);
  EXPECT_EQ(kind.expected_s, 0);
  EXPECT_EQ(account.sizes[4].n_steps, 0);
  add_step({{6, 2.0, true}, {2}, 2, 5, 0.1, 3.0}, costs_of({{6, 2.0}}), &account);
  EXPECT_EQ(kind.n_guessed, 2) << "two rows are cheaper than six, but who knows by how much";
  add_step({{6, 2.0, true}, {2}, 2, 5, 0.1, 3.0}, costs_of({{1, 1.0}, {6, 2.0}}), &account);
  EXPECT_EQ(kind.n_guessed, 2);
}

TEST(Account, RoundsAreCountedByPosition) {
  SpeculationAccount account;
  add_round({4, 2, DraftSource::kNgram4}, 1.5, &account);
  add_round({20, 20, DraftSource::kNgram4}, std::nullopt, &account);
  const DraftSourceSums& source = account.sources[2];
  EXPECT_EQ(source.rounds, 2);
  EXPECT_EQ(source.drafted, 24);
  EXPECT_EQ(source.accepted, 22);
  EXPECT_EQ(source.reached_at, (std::array<int64_t, 8>{2, 2, 2, 1, 1, 1, 1, 1}));
  EXPECT_EQ(source.accepted_at, (std::array<int64_t, 8>{2, 2, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(source.n_expected, 1);
  EXPECT_EQ(source.expected, 1.5);
  EXPECT_EQ(source.accepted_of_expected, 2);
}

// What holds of every run.
void expect_complete(const EngineStats& stats) {
  double seconds = 0, draft_s = 0, step_s = 0;
  int64_t n_steps = 0, n_tokens = 0, drafted = 0, rounds = 0, n_predicted = 0;
  for (const StepKindSums& kind : stats.account.kinds) {
    seconds += kind.draft_s + kind.step_s + kind.rest_s;
    draft_s += kind.draft_s;
    step_s += kind.step_s;
    n_steps += kind.n_steps;
    n_tokens += kind.n_tokens;
    EXPECT_GE(kind.rest_s, 0);
  }
  double predicted_steps_s = 0;
  for (const StepSizeSums& size : stats.account.sizes) {
    n_predicted += size.n_steps;
    predicted_steps_s += size.step_s;
  }
  for (const DraftSourceSums& source : stats.account.sources) {
    drafted += source.drafted;
    rounds += source.rounds;
  }
  EXPECT_NEAR(seconds, stats.decode_s, 1e-9 * static_cast<double>(stats.decode_steps + 1));
  EXPECT_NEAR(draft_s, stats.draft_times.first_s + stats.draft_times.later_s, 1e-9);
  EXPECT_EQ(stats.account.n_draft_passes, stats.draft_times.n_first + stats.draft_times.n_later);
  EXPECT_EQ(n_steps, stats.decode_steps);
  EXPECT_GE(n_tokens, stats.decode_tokens);
  EXPECT_EQ(drafted, stats.speculation.drafted);
  EXPECT_EQ(rounds, stats.speculation.rounds);
  if (n_predicted == n_steps) {
    EXPECT_NEAR(predicted_steps_s, step_s, 1e-9);
  }
  EXPECT_GE(n_predicted, n_steps - 1);
}

Request request_of(const std::string& draft_length, DrafterChoice drafter) {
  Request request = greedy_request({5, 9, 5, 9, 5, 9, 7, 5}, 40);
  request.n = 3;
  request.sampling.temperature = 1.0f;
  request.speculation.draft_length = draft_length;
  request.speculation.drafter = drafter;
  return request;
}

TEST(Account, AllOfDecodingIsAccountedForUnderEveryPolicyAndInABatchOfAll) {
  auto engine = load_engine(
      {.model_path = tiny_model("tiny_gqa_tied_f32"), .draft_path = tiny_model("draft_padded"), .n_threads = 1});
  std::vector<Request> all;
  for (const char* text : {"off", "fixed:3", "bass", "survival:min=0", "goodput"}) {
    for (const DrafterChoice drafter : {DrafterChoice::kAuto, DrafterChoice::kNgram, DrafterChoice::kModel}) {
      engine->reset_stats();
      all.push_back(request_of(text, drafter));
      run_one(*engine, all.back());
      const EngineStats stats = engine->stats();
      SCOPED_TRACE(text);
      expect_complete(stats);
      const auto& kinds = stats.account.kinds;
      if (text == std::string("off")) {
        EXPECT_EQ(kinds[SpeculationAccount::kRegular].n_steps, stats.decode_steps);
      }
      if (drafter == DrafterChoice::kNgram) {
        EXPECT_EQ(kinds[SpeculationAccount::kModel].n_steps, 0);
      }
      const bool expects = text == std::string("survival:min=0") || text == std::string("goodput");
      for (const DraftSourceSums& source : stats.account.sources) {
        EXPECT_EQ(source.n_expected, expects ? source.rounds : 0);
        EXPECT_LE(source.accepted_of_expected, source.accepted);
      }
    }
  }
  engine->reset_stats();
  run_all(*engine, all);
  expect_complete(engine->stats());
}

// Sequences of many lengths, some of which wait: regular decoding needs no estimate of itself.
TEST(Account, OffTakesAsLongAsRegularDecoding) {
  for (const int max_batch : {2, 5, 32}) {
    auto engine = load_engine({.model_path = tiny_model("tiny_gqa_tied_f32"), .max_batch = max_batch, .n_threads = 1});
    std::vector<Request> requests;
    for (int i = 0; i < 9; ++i) {
      requests.push_back(request_of("off", DrafterChoice::kAuto));
      requests.back().n = 1 + i % 3;
      requests.back().max_tokens = 3 + 7 * i % 23;
    }
    run_all(*engine, requests);
    const EngineStats stats = engine->stats();
    EXPECT_NEAR(stats.account.kinds[SpeculationAccount::kRegular].regular_s, stats.decode_s, 1e-9) << max_batch;
  }
}

}  // namespace
}  // namespace bass::testing
