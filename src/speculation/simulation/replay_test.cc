#include "speculation/simulation/replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace bass {
namespace {

// Every drafted token of every position is kept with the same probability.
Trace even_trace(double model_p, double ngram_p, int ngram_order = 4, int n_sequences = 6, int n_tokens = 200) {
  const auto draft = [](double p) {
    std::vector<DraftEvidence> tokens;
    double joint = 1;
    for (int i = 0; p >= 0 && i < 8; ++i) {
      joint *= p;
      const double block = block_acceptance(joint, joint * (1 - p));
      tokens.push_back({static_cast<float>(p), 1, static_cast<float>(p), static_cast<float>(block)});
    }
    return tokens;
  };
  const TracedRound round{draft(ngram_p), draft(model_p), ngram_order};
  Trace trace;
  for (int i = 0; i < n_sequences; ++i) {
    trace.sequences.push_back({"code", 50, n_tokens, std::vector<TracedRound>(static_cast<size_t>(n_tokens), round)});
  }
  return trace;
}

ReplayResult run(const Trace& trace, const MachineCosts& machine, const char* policy, const ReplayOptions& options) {
  const auto study = study_policy(policy, trace.max_drafts);
  if (study != nullptr) return replay(trace, machine, study.get(), options);
  const auto chooser = start_engine_policy(parse_draft_length(policy).value(), trace, machine);
  return replay(trace, machine, chooser.get(), options);
}

const MachineCosts kEachRowCosts{{{1, 1.1}, {11, 2.1}}, {{1, 0.05}, {8, 0.12}}};
const MachineCosts kRowsAreFree{{{1, 1.0}, {64, 1.0}, {128, 2.0}}, {{1, 0.02}}};

TEST(Replay, RegularDecodingTakesAStepAToken) {
  const Trace trace = even_trace(0.8, -1);
  const ReplayOptions options{.batch = 4, .n_steps = 500};
  const ReplayResult off = run(trace, kEachRowCosts, "off", options);
  EXPECT_EQ(off.n_steps, 500);
  EXPECT_EQ(off.n_tokens, 4 * 500);
  EXPECT_EQ(off.n_drafted, 0);
  EXPECT_NEAR(off.tokens_per_s(), 4 / 1.4, 1e-6);
  EXPECT_DOUBLE_EQ(run(trace, kEachRowCosts, "fixed:0", options).tokens_per_s(), off.tokens_per_s());
}

TEST(Replay, AFixedLengthHasItsClosedForm) {
  constexpr double kAcceptance = 0.7;
  constexpr int kBatch = 4, kLen = 3;
  const Trace trace = even_trace(kAcceptance, -1, 4, 6, 100000);
  const double accepted = kAcceptance + std::pow(kAcceptance, 2) + std::pow(kAcceptance, 3);
  const double step_s = seconds_at(kEachRowCosts.step, kBatch * (1 + kLen));
  const double draft_s = kLen * seconds_at(kEachRowCosts.draft_pass, kBatch);
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock}) {
    const ReplayResult result = run(trace, kEachRowCosts, "fixed:3", {.rule = rule, .batch = kBatch, .n_steps = 10000});
    EXPECT_NEAR(result.seconds, 10000 * (step_s + draft_s), 1e-6 * result.seconds);
    EXPECT_NEAR(result.draft_s, 10000 * draft_s, 1e-6 * result.seconds);
    EXPECT_EQ(result.n_drafted, int64_t{10000} * kBatch * kLen);
    // Drafts are one-hot: `block` keeps as many as `rejection` does.
    EXPECT_NEAR(static_cast<double>(result.n_accepted) / static_cast<double>(result.n_rounds), accepted, 0.03);
  }
}

// Drafts a token for everybody in every kEvery-th step.
class NowAndThen final : public LengthChooser {
 public:
  static constexpr int kEvery = 50;

  [[nodiscard]] int max_len() const override { return 1; }
  void choose(const StepLoad&, std::span<DraftCandidate> candidates) override {
    const bool drafts = ++n_steps_ % kEvery == 0;
    for (DraftCandidate& candidate : candidates) {
      candidate.len = drafts ? 1 : 0;
      if (drafts) {
        EXPECT_EQ(candidate.n_unread, kEvery);
      }
    }
  }
  void learn(const StepCost&, int, std::span<const DraftOutcome>) override {}

 private:
  int n_steps_ = 0;
};

TEST(Replay, ADraftModelReadsWhatItHasMissed) {
  const Trace trace = even_trace(0.0, -1, 4, 6, 100000);  // nothing is accepted
  MachineCosts machine = kEachRowCosts;
  const ReplayOptions options{.batch = 4, .n_steps = 1000};
  const auto draft_s = [&] {
    NowAndThen chooser;
    return replay(trace, machine, &chooser, options).draft_s;
  };
  const double passes_s = 20 * seconds_at(machine.draft_pass, 4);
  EXPECT_NEAR(draft_s(), passes_s, 1e-6);
  machine.catch_up_token_s = 0.01;
  EXPECT_NEAR(draft_s(), passes_s + 20 * 4 * NowAndThen::kEvery * 0.01, 1e-6);
  // One that drafts in every step follows the text.
  EXPECT_DOUBLE_EQ(run(trace, machine, "fixed:2", options).seconds,
                   run(trace, kEachRowCosts, "fixed:2", options).seconds);
}

TEST(Replay, EverySequenceOnceIsEveryTokenOnce) {
  const Trace trace = even_trace(0.6, 0.5);
  for (const char* policy : {"off", "fixed:4", "bass", "goodput"}) {
    const ReplayResult result = run(trace, kEachRowCosts, policy, {.batch = 4, .n_steps = 0});
    EXPECT_EQ(result.n_tokens, 6 * 200) << policy;
  }
}

// Looks at tokens cost a pass of the draft model, but no row of the main model.
class Looker final : public LengthChooser {
 public:
  [[nodiscard]] int max_len() const override { return 1; }
  void choose(const StepLoad&, std::span<DraftCandidate> candidates) override {
    for (DraftCandidate& candidate : candidates) {
      EXPECT_TRUE(candidate.can_look);
      candidate.len = 1;
      candidate.is_look = true;
    }
  }
  void learn(const StepCost& cost, int n_sequences, std::span<const DraftOutcome> outcomes) override {
    EXPECT_EQ(cost.n_rows, n_sequences);
    for (const DraftOutcome& outcome : outcomes) EXPECT_TRUE(outcome.is_look);
  }
};

TEST(Replay, ALookIsNotVerified) {
  const Trace trace = even_trace(1.0, -1);
  const ReplayOptions options{.batch = 4, .n_steps = 100};
  Looker looker;
  const ReplayResult looked = replay(trace, kEachRowCosts, &looker, options);
  const ReplayResult off = run(trace, kEachRowCosts, "off", options);
  EXPECT_EQ(looked.n_tokens, off.n_tokens);
  EXPECT_EQ(looked.n_drafted, 0);
  EXPECT_EQ(looked.n_accepted, 0);
  EXPECT_NEAR(looked.seconds - off.seconds, 100 * seconds_at(kEachRowCosts.draft_pass, 4), 1e-6);
}

// Drafts a token for everybody, and counts what is heard of them.
class Listener final : public LengthChooser {
 public:
  [[nodiscard]] int max_len() const override { return 1; }
  void choose(const StepLoad&, std::span<DraftCandidate> candidates) override {
    for (DraftCandidate& candidate : candidates) candidate.len = 1;
  }
  void learn(const StepCost&, int, std::span<const DraftOutcome> outcomes) override {
    for (const DraftOutcome& outcome : outcomes) {
      n_labels += static_cast<int>(outcome.labels.size());
      n_accepted += outcome.n_accepted;
    }
  }
  int n_labels = 0, n_accepted = 0;
};

TEST(Replay, LabelsMayBeKeptBack) {
  const Trace trace = even_trace(0.8, -1);
  Listener told, untold;
  replay(trace, kEachRowCosts, &told, {.batch = 4, .n_steps = 100});
  replay(trace, kEachRowCosts, &untold, {.batch = 4, .n_steps = 100, .has_labels = false});
  EXPECT_GT(told.n_labels, 300);
  EXPECT_EQ(untold.n_labels, 0);
  EXPECT_EQ(untold.n_accepted, told.n_accepted);
}

TEST(Replay, NothingIsDraftedBehindASequencesEnd) {
  const Trace trace = even_trace(1.0, -1, 4, 4, 12);
  const ReplayResult result = run(trace, kEachRowCosts, "fixed:4", {.batch = 4, .n_steps = 0});
  EXPECT_EQ(result.n_tokens, 4 * 12);
  EXPECT_EQ(result.n_drafted, 4 * (4 + 4 + 1)) << "two rounds of five tokens and one of two";
  EXPECT_EQ(result.n_accepted, result.n_drafted);
}

// Where an end token came there is a round more than tokens.
TEST(Replay, TextsMayEndBeforeTheLongest) {
  Trace trace = even_trace(0.7, -1, 4, 6, 30);
  for (size_t i = 1; i < trace.sequences.size(); ++i) trace.sequences[i].n_tokens = 5 + static_cast<int>(i);
  for (TracedSequence& sequence : trace.sequences) {
    sequence.rounds.resize(static_cast<size_t>(sequence.n_tokens) + 1, sequence.rounds.front());
  }
  for (const bool uses_model : {true, false}) {
    for (const char* policy : {"off", "fixed:8", "bass", "survival:min=0.01", "survival", "goodput", "bandit"}) {
      const ReplayOptions options{.uses_model = uses_model, .batch = 4, .n_steps = 0};
      EXPECT_EQ(run(trace, kRowsAreFree, policy, options).n_tokens, 30 + 6 + 7 + 8 + 9 + 10) << policy;
    }
  }
}

// `goodput` as if nobody waited for the end of all.
class Unweighed final : public LengthChooser {
 public:
  explicit Unweighed(std::unique_ptr<LengthChooser> chooser) : chooser_(std::move(chooser)) {}
  [[nodiscard]] int max_len() const override { return chooser_->max_len(); }
  void choose(const StepLoad& regular, std::span<DraftCandidate> candidates) override {
    for (const DraftCandidate& candidate : candidates) EXPECT_EQ(candidate.worth, 1);
    chooser_->choose(regular, candidates);
  }
  void learn(const StepCost& cost, int n_sequences, std::span<const DraftOutcome> outcomes) override {
    chooser_->learn(cost, n_sequences, outcomes);
  }

 private:
  std::unique_ptr<LengthChooser> chooser_;
};

// Texts for which the draft model is better and worse.
Trace uneven_trace(int n_tokens) {
  Trace trace;
  for (const double p : {0.8, 0.65, 0.5, 0.35}) {
    TracedSequence sequence = even_trace(p, -1, 4, 1, n_tokens).sequences.front();
    for (TracedRound& round : sequence.rounds) {
      for (DraftEvidence& token : round.model) token.confidence = static_cast<float>(p);
    }
    trace.sequences.push_back(sequence);
  }
  return trace;
}

TEST(Replay, WhatIsWantedTogetherEndsSoonerWhenTokensAreWeighed) {
  const Trace trace = uneven_trace(96);
  const MachineCosts machine{{{1, 3.1}, {4, 3.9}, {8, 5.3}, {9, 7.4}, {16, 9.8}, {17, 11.8}, {64, 36.5}},
                             {{1, 0.21}, {4, 0.28}, {8, 0.4}}};
  double weighed = 0, unweighed = 0, closed = 0, open = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ReplayOptions options{.batch = 4, .n_steps = 0, .noise = 0.05, .seed = seed};
    const auto goodput = [&] { return start_engine_policy(parse_draft_length("goodput").value(), trace, machine); };
    Unweighed without(goodput());
    weighed += replay(trace, machine, goodput().get(), options).seconds;
    unweighed += replay(trace, machine, &without, options).seconds;
    // Where others take the places nothing is weighed.
    options.n_steps = 200;
    Unweighed also_without(goodput());
    closed += replay(trace, machine, goodput().get(), options).tokens_per_s();
    open += replay(trace, machine, &also_without, options).tokens_per_s();
  }
  EXPECT_LT(weighed, 0.995 * unweighed);
  EXPECT_DOUBLE_EQ(closed, open);
}

TEST(Replay, APolicyThatReadsCostsFollowsThem) {
  const Trace trace = even_trace(0.6, -1);
  const ReplayOptions options{.batch = 8, .n_steps = 1500, .noise = 0.05};
  const auto ratio = [&](const MachineCosts& machine, const char* policy) {
    return run(trace, machine, policy, options).tokens_per_s() / run(trace, machine, "off", options).tokens_per_s();
  };
  EXPECT_GT(ratio(kRowsAreFree, "goodput"), 1.8);
  const MachineCosts dear{{{1, 0.1}, {10, 1.0}}, {{1, 0.02}}};
  EXPECT_GT(ratio(dear, "goodput"), 0.98);
  EXPECT_LT(ratio(dear, "fixed:4"), 0.7);
}

TEST(Replay, PoliciesOfTheStudyFindWhatPays) {
  const Trace trace = even_trace(0.8, -1);
  const MachineCosts dear{{{1, 0.1}, {10, 1.0}}, {{1, 0.02}}};
  const ReplayOptions options{.batch = 8, .n_steps = 4000, .noise = 0.05};
  for (const char* policy : {"bandit", "gradient"}) {
    const double free_rows = run(trace, kRowsAreFree, policy, options).tokens_per_s();
    EXPECT_GT(free_rows, 0.85 * run(trace, kRowsAreFree, "fixed:6", options).tokens_per_s()) << policy;
    const double dear_rows = run(trace, dear, policy, options).tokens_per_s();
    EXPECT_GT(dear_rows, 0.85 * run(trace, dear, "off", options).tokens_per_s()) << policy;
    EXPECT_GT(dear_rows, run(trace, dear, "fixed:3", options).tokens_per_s()) << policy;
  }
  EXPECT_EQ(study_policy("goodput", 8), nullptr);
}

TEST(Replay, LongContextsMakeRowsCheapBesideThem) {
  const Trace trace = even_trace(0.6, -1);
  MachineCosts machine = kEachRowCosts;
  const ReplayOptions options{.batch = 8, .n_steps = 100};
  const double without = run(trace, machine, "off", options).seconds;
  machine.context_token_s = 1e-3;
  EXPECT_NEAR(run(trace, machine, "off", options).seconds - without, 100 * 8 * (50 + 49.5) * 1e-3, 1e-6);
}

TEST(Replay, DraftersAreTheOnesThatWereAskedFor) {
  const Trace trace = even_trace(0.0, 1.0, 3);
  const auto accepted = [&](ReplayOptions options) {
    options.n_steps = 50;
    return run(trace, kEachRowCosts, "fixed:2", options).n_accepted;
  };
  EXPECT_GT(accepted({}), 0);
  EXPECT_EQ(accepted({.uses_ngrams = false}), 0);
  EXPECT_EQ(accepted({.min_ngram_order = 4}), 0);
  EXPECT_GT(accepted({.uses_model = false}), 0);
  EXPECT_EQ(run(trace, kEachRowCosts, "fixed:2", {.uses_ngrams = false, .uses_model = false}).n_drafted, 0);
}

TEST(Replay, Algorithm1GrowsToTheLongestTracedDraft) {
  const Trace trace = even_trace(1.0, -1);
  const ReplayResult result = run(trace, kRowsAreFree, "bass", {.batch = 2, .n_steps = 200});
  EXPECT_GT(static_cast<double>(result.n_drafted) / static_cast<double>(result.n_rounds), 7.5);
}

TEST(Replay, ASeedIsARun) {
  const Trace trace = even_trace(0.5, 0.5);
  const auto tokens = [&](uint64_t seed) {
    return run(trace, kEachRowCosts, "goodput", {.n_steps = 300, .noise = 0.1, .seed = seed}).n_tokens;
  };
  EXPECT_EQ(tokens(3), tokens(3));
  EXPECT_NE(tokens(3), tokens(4));
}

}  // namespace
}  // namespace bass
