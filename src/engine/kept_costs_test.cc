#include "engine/kept_costs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "speculation/step_prediction.h"
#include "support/engine_run.h"
#include "support/temp_folder.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

StepCosts measured() {
  StepCosts costs;
  for (int i = 0; i < 50; ++i) {
    learn_step_cost({1, 0.001, true}, &costs);
    learn_step_cost({5, 0.0015, true, 4, 4, 0.0004}, &costs);
  }
  StepCost caught_up{5, 0.0015, true, 1, 1, 0.0021};
  caught_up.n_caught_up = 100;
  learn_step_cost(caught_up, &costs);
  return costs;
}

size_t n_files(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(KeptCosts, AreReadBackAndBelievedLittle) {
  const testing::TempFolder folder;
  const std::string path = kept_costs_path(folder / "costs", "a key");
  const StepCosts written = measured();
  keep_costs(written, path, "a key");
  keep_costs(written, path, "a key");  // replaces
  EXPECT_EQ(n_files(folder / "costs"), 1U);
  const StepCosts read = read_kept_costs(path, "a key");
  EXPECT_EQ(read.max_rows_seen, 5);
  EXPECT_FLOAT_EQ(read.draft_step_s[0], written.draft_step_s[0]);
  EXPECT_EQ(read.draft_step_s[3], 0);
  EXPECT_NEAR(predicted_catch_up_seconds(read, 100), 0.002, 1e-4);
  for (const int n_rows : {1, 5}) EXPECT_FLOAT_EQ(read.step_s[n_rows], written.step_s[n_rows]);
  EXPECT_NEAR(predicted_step_seconds(read, StepLoad{3}), predicted_step_seconds(written, StepLoad{3}), 1e-4);
  EXPECT_LT(read.n_measured[5], written.n_measured[5]);
  EXPECT_EQ(read.n_measured[3], 0);
  // A machine that is three times slower now is believed soon.
  StepCosts now = read;
  for (int i = 0; i < 20; ++i) learn_step_cost({5, 3 * 0.0015, true}, &now);
  EXPECT_GT(predicted_step_seconds(now, StepLoad{1}), 1.5 * predicted_step_seconds(read, StepLoad{1}));
}

// Two rows of a sequence take as long as one, and three half as long again.
TEST(KeptCosts, SayHowManyRowsAttentionReadsForAtThePriceOfOne) {
  const testing::TempFolder folder;
  const std::string path = kept_costs_path(folder / "costs", "a key");
  StepCosts costs;
  for (int i = 0; i < 200; ++i) {
    StepCost cost{8 * (1 + i % 3), 0.02, true};
    cost.n_read = 24000;
    cost.n_seen = cost.n_read * (1 + i % 3);
    cost.attention_s = i % 3 == 2 ? 0.015 : 0.010;
    learn_step_cost(cost, &costs);
  }
  ASSERT_EQ(costs.attention.free_rows(), 2);
  keep_costs(costs, path, "a key");
  const StepCosts read = read_kept_costs(path, "a key");
  EXPECT_EQ(read.attention.free_rows(), 2);
  for (const int n : {1, 2, 3}) {
    EXPECT_NEAR(predicted_attention_seconds(read.attention, {8 * n, 24000, 24000.0 * n}), n == 3 ? 0.015 : 0.010, 5e-4);
  }
  const auto free_rows = [&](const std::string& text) {
    std::ofstream(path) << R"({"key": "a key", "attention_seconds": [0, 4e-7, 2e-7])" << text << "}";
    const AttentionCosts attention = read_kept_costs(path, "a key").attention;
    EXPECT_EQ(attention.fit().seconds[1], 4e-7) << text;
    return attention.free_rows();
  };
  EXPECT_EQ(free_rows(""), 1) << "a file of an earlier version";
  EXPECT_EQ(free_rows(R"(, "attention_free_rows": 3)"), 3);
  for (const char* wrong : {"\"two\"", "-1", "0", "1e99", "null", "2.5"}) {
    EXPECT_EQ(free_rows(fmt::format(R"(, "attention_free_rows": {})", wrong)), 1) << wrong;
  }
  EXPECT_EQ(free_rows(R"(, "attention_free_rows": 99)"), AttentionCosts::kFits);
}

TEST(KeptCosts, ReadingATokenIsNeverBelievedToTakeLongerThanAPassOfOne) {
  const testing::TempFolder folder;
  const std::string path = folder / "costs.json";
  StepCosts wrong = measured();
  wrong.catch_up_s = 0.02F;
  keep_costs(wrong, path, "key");
  const StepCosts read = read_kept_costs(path, "key");
  EXPECT_FLOAT_EQ(predicted_catch_up_seconds(read, 1), predicted_draft_seconds(read, 1, 1));
  EXPECT_LT(predicted_catch_up_seconds(read, 1), 0.01);
}

TEST(KeptCosts, WhatAnotherProgramMeasuredMeanwhileStaysAtThisRunsLevel) {
  const testing::TempFolder folder;
  const std::string path = folder / "costs.json";
  StepCosts first, second;
  for (int i = 0; i < 5; ++i) {
    learn_step_cost({8, 0.010, true}, &first);
    learn_step_cost({16, 0.020, true, 1, 8, 0.001}, &first);
    learn_step_cost({8, 0.012, true}, &second);
  }
  keep_costs(first, path, "key");
  keep_costs(second, path, "key");
  const StepCosts read = read_kept_costs(path, "key");
  EXPECT_NEAR(predicted_step_seconds(read, StepLoad{8}), 0.012, 1e-6) << "the last one's";
  EXPECT_NEAR(predicted_step_seconds(read, StepLoad{16}), 0.024, 1e-3) << "the first one's alone, when the other ran";
  EXPECT_NEAR(predicted_draft_seconds(read, 1, 8), 0.0012, 1e-4) << "the first one's alone";
  EXPECT_EQ(predicted_catch_up_seconds(read, 100), 0) << "nobody's";
}

// A machine is faster on some days. What was measured on one of them must not make all that was not look dear.
TEST(KeptCosts, OfFastAndSlowDaysHaveOneShape) {
  const testing::TempFolder folder;
  const std::string path = kept_costs_path(folder.path(), "a key");
  const auto seconds = [](int n_rows) { return 0.001 + 0.0001 * n_rows; };
  const auto run = [&](int n_sizes, double slowness) {
    StepCosts costs = read_kept_costs(path, "a key");
    for (int i = 0; i < 20; ++i) {
      for (int n_rows = 1; n_rows <= n_sizes; ++n_rows) {
        learn_step_cost({n_rows, slowness * seconds(n_rows), true, 1, n_rows, slowness * 0.0002}, &costs);
      }
    }
    keep_costs(costs, path, "a key");
  };
  run(40, 1.4);
  for (const double slowness : {1.0, 1.6, 1.0}) {
    run(9, slowness);
    const StepCosts read = read_kept_costs(path, "a key");
    EXPECT_NEAR(read.step_s[16] / read.step_s[8], seconds(16) / seconds(8), 0.05) << slowness;
    EXPECT_NEAR(read.draft_step_s[5] / read.draft_step_s[0], 1, 0.05) << slowness;
  }
}

// Sizes are bounded by larger ones when a file is read, which favours what noise has made cheap. Neither what is
// measured in each run may sink by that, beside attention, which is kept as it was measured, nor the rest rise.
TEST(KeptCosts, NeitherSinkNorRiseFromRunToRun) {
  const testing::TempFolder folder;
  const std::string path = kept_costs_path(folder.path(), "a key");
  std::mt19937 generator(1);  // NOLINT: the same in each run of the test
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  const auto seconds = [](int n_rows) { return 0.001 + 0.00002 * n_rows; };
  for (int run = 0; run < 200; ++run) {
    StepCosts costs = read_kept_costs(path, "a key");
    const int n_sizes = run == 0 ? 30 : 12;
    for (int i = 0; i < 4 * n_sizes; ++i) {
      const int n_rows = 1 + i % n_sizes;
      learn_step_cost({n_rows, noise(generator) * seconds(n_rows), true, 1, n_rows, noise(generator) * 0.0002}, &costs);
    }
    keep_costs(costs, path, "a key");
  }
  const StepCosts read = read_kept_costs(path, "a key");
  for (const int n_rows : {1, 8, 12, 20, 30}) EXPECT_NEAR(read.step_s[n_rows] / seconds(n_rows), 1, 0.2) << n_rows;
  for (const int size : {0, 2, 4}) EXPECT_NEAR(read.draft_step_s[size] / 0.0002, 1, 0.25) << size;
}

// An engine keeps its costs every few minutes.
TEST(KeptCosts, StayAsTheyAreWhenTheyAreKeptAgain) {
  const testing::TempFolder folder;
  const std::string path = kept_costs_path(folder.path(), "a key");
  StepCosts before;
  for (int n_rows = 1; n_rows <= 40; ++n_rows) {
    for (int i = 0; i < 4; ++i) learn_step_cost({n_rows, n_rows % 3 == 0 ? 0.0011 : 0.0010, true}, &before);
  }
  keep_costs(before, path, "a key");
  StepCosts costs = read_kept_costs(path, "a key");
  for (int i = 0; i < 40; ++i) learn_step_cost({1 + i % 10, i % 3 == 0 ? 0.0011 : 0.0010, true}, &costs);
  keep_costs(costs, path, "a key");
  const StepCosts once = read_kept_costs(path, "a key");
  for (int i = 0; i < 100; ++i) keep_costs(costs, path, "a key");
  const StepCosts often = read_kept_costs(path, "a key");
  for (const int n_rows : {1, 10, 11, 40}) EXPECT_FLOAT_EQ(often.step_s[n_rows], once.step_s[n_rows]) << n_rows;
}

// The first steps of a process take longer than those that follow. That the machine became faster then, run after run,
// must not make passes of the draft model free that none of these runs has measured.
TEST(KeptCosts, PassesThatWereNotMeasuredStayAsTheyWere) {
  const testing::TempFolder folder;
  const std::string path = folder / "costs.json";
  keep_costs(measured(), path, "key");
  const StepCosts before = read_kept_costs(path, "key");
  for (int run = 0; run < 5; ++run) {
    StepCosts costs = read_kept_costs(path, "key");
    for (int i = 0; i < 100; ++i) learn_step_cost({5, i < 10 ? 0.0030 : 0.0015, true}, &costs);
    keep_costs(costs, path, "key");
  }
  const StepCosts after = read_kept_costs(path, "key");
  EXPECT_FLOAT_EQ(predicted_draft_seconds(after, 1, 1), predicted_draft_seconds(before, 1, 1));
  EXPECT_FLOAT_EQ(predicted_catch_up_seconds(after, 100), predicted_catch_up_seconds(before, 100));
}

// As steps of their rows: the first measurement says how fast the machine is today.
TEST(KeptCosts, OfPassesFollowTheMachine) {
  const testing::TempFolder folder;
  const std::string path = folder / "costs.json";
  keep_costs(measured(), path, "key");
  StepCosts costs = read_kept_costs(path, "key");
  const double draft_s = predicted_draft_seconds(costs, 1, 1);
  for (int i = 0; i < 20; ++i) learn_step_cost({5, 2 * 0.0015, true}, &costs);
  EXPECT_NEAR(predicted_draft_seconds(costs, 1, 1), 2 * draft_s, 0.2 * draft_s);
}

// Steps of 9 to 16 rows took twenty times as long in a run beside other programs. Had they been believed, regular steps
// of 8 rows would look as dear as they, and drafts as if they paid.
TEST(KeptCosts, WhatOtherProgramsMadeLongIsNotBelieved) {
  const testing::TempFolder folder;
  const std::string path = folder / "costs.json";
  StepCosts disturbed;
  for (const auto& [n_rows, seconds] :
       {std::pair{6, 0.005}, {8, 0.006}, {9, 0.2}, {12, 0.02}, {16, 0.15}, {17, 0.010}, {24, 0.014}}) {
    for (int i = 0; i < 3; ++i)
      learn_step_cost({n_rows, seconds, true, 1, n_rows == 9 ? 1 : 8, 0.001 * (n_rows == 9 ? 30 : 1)}, &disturbed);
  }
  keep_costs(disturbed, path, "key");
  StepCosts read = read_kept_costs(path, "key");
  for (const int n_rows : {9, 12, 16, 17}) EXPECT_FLOAT_EQ(read.step_s[n_rows], read.step_s[17]) << n_rows;
  EXPECT_LT(read.step_s[6], read.step_s[8]);
  EXPECT_LT(read.step_s[17], read.step_s[24]);
  EXPECT_FLOAT_EQ(read.draft_step_s[0], read.draft_step_s[3]) << "a larger pass took less";
  for (int i = 0; i < 5; ++i) learn_step_cost({8, 0.006, true}, &read);
  EXPECT_NEAR(predicted_step_seconds(read, StepLoad{8}), 0.006, 0.002);
}

TEST(KeptCosts, OfAnotherKeyOrDamagedAreNothing) {
  const testing::TempFolder folder;
  const std::string path = folder / "costs.json";
  EXPECT_NE(kept_costs_path("f", "a"), kept_costs_path("f", "b"));
  EXPECT_EQ(read_kept_costs(path, "key").max_rows_seen, 0) << "no file";
  keep_costs(measured(), path, "key");
  EXPECT_EQ(read_kept_costs(path, "other").max_rows_seen, 0);
  EXPECT_EQ(read_kept_costs(folder / ".", "key").max_rows_seen, 0) << "a folder";
  for (const char* text :
       {"", "{", "[]", R"({"key":"key"})", R"({"key":"key","step_seconds":7})",
        R"({"key":"key","step_seconds":[1,[]]})",
        R"({"key":"key","step_seconds":[[0,1],[513,1],[-1,1],[2,-1],[3,0],[4,1e9],["a",1],[5,"b"],[6]]})",
        R"({"key":"key","draft_step_seconds":[1,2]})",
        R"({"key":"key","draft_step_seconds":[-1,0,1e9,"a",[],null,0,0,0,0]})",
        R"({"key":"key","step_seconds":[[1e30,1]],"draft_step_seconds":-1})"}) {
    std::ofstream(path) << text;
    const StepCosts costs = read_kept_costs(path, "key");
    EXPECT_EQ(costs.max_rows_seen, 0) << text;
    EXPECT_EQ(predicted_draft_seconds(costs, 1, 1), 0) << text;
  }
}

TEST(KeptCosts, AreNoFaultWhereTheyCannotBeWritten) {
  const testing::TempFolder folder;
  std::ofstream(folder / "file") << "x";
  keep_costs(measured(), folder / "file/costs.json", "key");
  EXPECT_EQ(n_files(folder / "."), 1U);
}

// The first token does not wait for measurements: what steps cost is learnt from steps that are wanted.
TEST(KeptCosts, NothingIsRunToMeasure) {
  const testing::TempFolder folder;
  EngineOptions options{.model_path = testing::tiny_model("tiny_gqa_tied_f32"), .n_threads = 1};
  options.costs_folder = folder / "costs";
  auto engine = testing::load_engine(options);
  EXPECT_EQ(engine->stats().steps, 0);
  EXPECT_EQ(engine->stats().work.bytes, 0);
  testing::run_one(*engine, testing::greedy_request({5, 6, 7}, 1));
  EXPECT_EQ(engine->stats().steps, 2) << "the prompt, and the token behind it";
}

TEST(KeptCosts, AnEngineKeepsThemAfterManySteps) {
  const testing::TempFolder folder;
  const auto run = [&](int n_tokens) {
    EngineOptions options{.model_path = testing::tiny_model("tiny_gqa_tied_f32"), .n_threads = 1};
    options.costs_folder = folder / "costs";
    auto engine = testing::load_engine(options);
    testing::run_one(*engine, testing::greedy_request({5, 6, 7}, n_tokens));
  };
  run(20);
  EXPECT_FALSE(fs::exists(folder / "costs")) << "too few steps to be worth a file";
  run(200);
  ASSERT_EQ(n_files(folder / "costs"), 1U);
  run(200);
  EXPECT_EQ(n_files(folder / "costs"), 1U) << "the same model on the same machine";
}

}  // namespace
}  // namespace bass
