#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/policy_registry.h"
#include "engine/scheduler_testing.h"

namespace bass {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of the scheduler share

class ReadingPrompts : public SchedulerTest {
 protected:
  // Steps of twice the rows cost `ratio` times as much.
  void measure(double ratio) {
    costs_.max_rows_seen = 64;
    for (int rows = 1; rows <= costs_.max_rows_seen; ++rows) {
      costs_.step_s[rows] = static_cast<float>(1e-3 * std::pow(rows, std::log2(ratio)));
      costs_.n_measured[rows] = 200;
    }
  }

  // Which of the requests' prompts the draft model reads in the first step.
  std::vector<bool> read(std::list<std::unique_ptr<RequestState>> requests) {
    const auto n = static_cast<int>(requests.size());
    Scheduler scheduler({2 * n, 4 * n * kPromptLen, kCpuPageLen, 100 * n, true, 0}, &costs_, &executor_);
    scheduler.add(&requests);
    StepPlan plan;
    std::vector<SegmentOwner> owners;
    scheduler.schedule(n * kPromptLen, &plan, &owners);
    std::vector<bool> is_read;
    for (const SegmentPlan& segment : plan.segments) {
      EXPECT_EQ(segment.tokens.size(), static_cast<size_t>(kPromptLen - 1));
      EXPECT_TRUE(segment.draft_tokens.empty() || segment.draft_tokens.size() == segment.tokens.size());
      is_read.push_back(!segment.draft_tokens.empty());
    }
    EXPECT_EQ(is_read.size(), static_cast<size_t>(n));
    return is_read;
  }
};

TEST_F(ReadingPrompts, OneInEightWhereDraftsWouldNotPay) {
  measure(2.0);
  const std::vector<bool> is_read = read(requests("goodput", 17));
  for (size_t i = 0; i < is_read.size(); ++i) EXPECT_EQ(is_read[i], i % 8 == 0) << i;
}

TEST_F(ReadingPrompts, OneOfASmallBatch) {
  measure(2.0);
  EXPECT_EQ(read(requests("goodput", 3)), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(read(requests("goodput", 1)), std::vector<bool>{true});
}

TEST_F(ReadingPrompts, AllWhereDraftsWouldPayOrNothingIsKnown) {
  measure(1.01);
  EXPECT_EQ(read(requests("goodput", 9)), std::vector<bool>(9, true));
  costs_ = {};
  EXPECT_EQ(read(requests("goodput", 9)), std::vector<bool>(9, true));
  costs_.max_rows_seen = 2;  // a short warm-up
  costs_.step_s[1] = costs_.step_s[2] = 1e-3f;
  costs_.n_measured[1] = costs_.n_measured[2] = 9;
  EXPECT_EQ(read(requests("goodput", 9)), std::vector<bool>(9, true));
}

// What reading takes must be won with the tokens that follow. Where it was never measured, a token's reading is taken
// to cost as much as its drafting.
TEST_F(ReadingPrompts, FewOfLongPromptsWithShortAnswers) {
  constexpr float kTokenSeconds = 2e-4F;
  measure(1.01);
  for (const bool is_measured : {true, false}) {
    costs_.draft_step_s[0] = kTokenSeconds;
    costs_.catch_up_s = is_measured ? kTokenSeconds : 0;
    const std::vector<bool> is_read = read(requests("goodput", 16));
    EXPECT_EQ(std::count(is_read.begin(), is_read.end(), true), 2) << is_measured;
    std::list<std::unique_ptr<RequestState>> long_answers;
    for (int i = 0; i < 9; ++i) long_answers.push_back(request("goodput", 1, /*max_tokens=*/400));
    EXPECT_EQ(read(std::move(long_answers)), std::vector<bool>(9, true)) << is_measured;
  }
  costs_.draft_step_s[0] = costs_.catch_up_s = 0;
  EXPECT_EQ(read(requests("goodput", 9)), std::vector<bool>(9, true)) << "reading takes nothing";
}

// A pass reads so few beside its own tokens.
TEST_F(ReadingPrompts, AllThatAreShort) {
  measure(1.01);
  costs_.draft_step_s[0] = costs_.catch_up_s = 2e-4F;
  std::list<std::unique_ptr<RequestState>> all = requests("goodput", 9);
  for (const auto& state : all) {
    state->prompt.resize(8);
    state->prefix_len = state->shared_len();
  }
  Scheduler scheduler({18, 1000, kCpuPageLen, 900, true, 0}, &costs_, &executor_);
  for (const RequestState* state : start(std::move(all), 9 * kPromptLen, &scheduler)) {
    EXPECT_TRUE(state->draft_reads_prompt);
  }
}

TEST_F(ReadingPrompts, AllWherePoliciesDoNotWeighCosts) {
  measure(2.0);
  for (const char* policy : {"bass", "fixed:3", "survival"}) {
    EXPECT_EQ(read(requests(policy, 9)), std::vector<bool>(9, true)) << policy;
  }
}

TEST_F(ReadingPrompts, OthersRequestsDoNotCount) {
  measure(2.0);
  std::list<std::unique_ptr<RequestState>> all;
  for (int i = 0; i < 20; ++i) all.push_back(request(i % 2 == 0 ? "goodput" : "fixed:3"));
  const std::vector<bool> is_read = read(std::move(all));
  for (size_t i = 0; i < is_read.size(); ++i) EXPECT_EQ(is_read[i], i % 2 == 1 || i % 16 == 0) << i;
}

TEST_F(ReadingPrompts, OnceForAllSamplesAndNeverForASingleToken) {
  measure(2.0);
  std::list<std::unique_ptr<RequestState>> all;
  all.push_back(request("goodput"));
  all.push_back(request("goodput", 3));
  all.push_back(request("goodput"));
  all.push_back(request("fixed:3", 1, /*max_tokens=*/1));
  EXPECT_EQ(read(std::move(all)), (std::vector<bool>{true, true, false, false}));
}

// The draft model reads later what it did not read, no more in a step than the step may have, and drafts then.
TEST_F(ReadingPrompts, WhatWasNotReadIsReadWhenDraftsPay) {
  measure(2.0);
  constexpr int kSequences = 4, kLen = 80, kCaughtUp = 60;
  SchedulerOptions options{kSequences, 1000, kCpuPageLen, kSequences * 8, true, 100};
  options.max_caught_up = kCaughtUp;
  Scheduler scheduler(options, &costs_, &executor_);
  std::list<std::unique_ptr<RequestState>> all = requests("goodput", kSequences);
  for (const auto& state : all) set_prompt_len(state.get(), kLen);
  start(std::move(all), kSequences * kLen, &scheduler);
  StepPlan plan;
  std::vector<SegmentOwner> owners;
  measure(1.01);
  std::vector<int> n_read(kSequences, 0);
  for (int step = 0; step < 8; ++step) {
    for (int rows = 1; rows <= 64; ++rows) costs_.last_measured[rows] = ++costs_.n_steps;  // not yet stale
    scheduler.schedule(100, &plan, &owners);
    ASSERT_EQ(plan.segments.size(), static_cast<size_t>(kSequences));
    int n_step = 0;
    for (size_t i = 0; i < plan.segments.size(); ++i) {
      const SegmentPlan& segment = plan.segments[i];
      if (segment.draft_tokens.empty()) continue;
      EXPECT_EQ(segment.draft_start, owners[i].sequence->draft_pages.len());
      const int n_known = segment.draft_start + static_cast<int>(segment.draft_tokens.size());
      EXPECT_EQ(segment.n_model_drafts > 0, n_known == kLen) << "it drafts once it has read all";
      owners[i].sequence->draft_pages.commit(n_known);
      n_read[i] = n_known;
      n_step += static_cast<int>(segment.draft_tokens.size());
    }
    EXPECT_LE(n_step, kCaughtUp + kMaxDraftLen + 1);
  }
  EXPECT_EQ(n_read, std::vector<int>(kSequences, kLen));
}

// Where a step's length is bounded by time, what the draft model catches up with is too; but where a seed fixes the
// noise of drafts, which depends on where they begin.
TEST_F(ReadingPrompts, CatchingUpTakesNoLongerThanAPromptsPieces) {
  constexpr int kBounded = 40, kCaughtUp = 60;
  SchedulerOptions options{1, 1000, kCpuPageLen, 20, true, 100};
  options.max_caught_up = kCaughtUp;
  const auto n_read = [&](VerifyRule rule, std::optional<uint64_t> seed) {
    Scheduler scheduler(options, &costs_, &executor_);
    std::list<std::unique_ptr<RequestState>> all;
    all.push_back(request("fixed:3", 1, /*max_tokens=*/200));
    all.front()->request.seed = seed;
    all.front()->sampling = {.temperature = 1, .rule = rule};
    Sequence& sequence = *start(std::move(all), kPromptLen, &scheduler)[0]->choices[0];
    sequence.output.assign(100, 7);
    StepPlan plan;
    std::vector<SegmentOwner> owners;
    scheduler.schedule(kBounded, &plan, &owners);
    return static_cast<int>(plan.segments[0].draft_tokens.size());
  };
  EXPECT_EQ(n_read(VerifyRule::kMatch, 1), kBounded);
  EXPECT_EQ(n_read(VerifyRule::kBlock, std::nullopt), kBounded);
  EXPECT_EQ(n_read(VerifyRule::kBlock, 1), kCaughtUp);
}

// A draft behind tokens that one step may emit needs no place among what is caught up with.
TEST_F(ReadingPrompts, WhatAStepEmittedIsReadAtOnce) {
  SchedulerOptions options{1, 1000, kCpuPageLen, 8, true, 100};
  options.max_caught_up = 1;
  Scheduler scheduler(options, &costs_, &executor_);
  std::list<std::unique_ptr<RequestState>> all = requests("fixed:32", 1);
  Sequence& sequence = *start(std::move(all), kPromptLen, &scheduler)[0]->choices[0];
  StepPlan plan;
  std::vector<SegmentOwner> owners;
  scheduler.schedule(100, &plan, &owners);
  ASSERT_EQ(plan.segments[0].draft_tokens.size(), 1u);
  sequence.draft_pages.commit(kPromptLen);
  const auto rows_behind = [&](int n_emitted) {
    sequence.output.assign(static_cast<size_t>(n_emitted), 7);
    scheduler.schedule(100, &plan, &owners);
    return static_cast<int>(plan.segments[0].draft_tokens.size());
  };
  EXPECT_EQ(rows_behind(kMaxDraftLen + 1), kMaxDraftLen + 1);
  EXPECT_EQ(rows_behind(kMaxDraftLen + 2), 1) << "more comes of steps in which others drafted";
}

// Where prompts are always read beside, regular steps are never measured, and must not be waited for.
TEST_F(ReadingPrompts, SequencesBesidePromptsDraftThoughRegularStepsWereNotMeasured) {
  measure(1.01);
  Scheduler scheduler({2, 1000, kCpuPageLen, 8, true, 100}, &costs_, &executor_);
  start(requests("goodput", 1), kPromptLen, &scheduler);
  StepPlan plan;
  std::vector<SegmentOwner> owners;
  costs_.draft_step_s[0] = 1e-5f;
  scheduler.schedule(kPromptLen, &plan, &owners);
  ASSERT_EQ(plan.segments.size(), 1U);
  EXPECT_EQ(plan.segments[0].n_drafts(), 0) << "this one is measured";

  std::list<std::unique_ptr<RequestState>> second = requests("goodput", 1);
  scheduler.add(&second);
  scheduler.schedule(kPromptLen, &plan, &owners);
  ASSERT_EQ(plan.segments.size(), 2U);
  EXPECT_GT(plan.segments[0].n_drafts(), 0);
  EXPECT_FALSE(plan.segments[1].wants_sample) << "a prompt";
}

// What a token saves later is told from who will run together then: not from those that wait for a place.
TEST_F(ReadingPrompts, SequencesBesidePromptsCountOnThoseThatWereAdmitted) {
  Scheduler scheduler({3, 1000, kCpuPageLen, 1000, true, 100}, &costs_, &executor_);
  start(requests("goodput", 1), kPromptLen, &scheduler);
  StepPlan plan;
  std::vector<SegmentOwner> owners;
  scheduler.schedule(kPromptLen, &plan, &owners);
  EXPECT_EQ(scheduler.regular_load().n_later, 0) << "no prompts";
  std::list<std::unique_ptr<RequestState>> others = requests("goodput", 7);
  scheduler.add(&others);
  scheduler.schedule(kPromptLen, &plan, &owners);
  EXPECT_EQ(scheduler.regular_load().n_rows, 1);
  EXPECT_EQ(scheduler.regular_load().n_later, 3);
}

// Where another policy drafts in every step no regular step comes, and must not be waited for.
TEST_F(ReadingPrompts, SequencesBesideAnotherPolicysDraftThoughRegularStepsWereNotMeasured) {
  measure(1.01);
  costs_.draft_step_s[0] = 1e-5f;
  for (const char* other : {"off", "fixed:3"}) {
    Scheduler scheduler({2, 1000, kCpuPageLen, 8, true, 100}, &costs_, &executor_);
    std::list<std::unique_ptr<RequestState>> all = requests("goodput", 1);
    all.push_back(request(other));
    start(std::move(all), 2 * kPromptLen, &scheduler);
    StepPlan plan;
    std::vector<SegmentOwner> owners;
    scheduler.schedule(2 * kPromptLen, &plan, &owners);
    ASSERT_EQ(plan.segments.size(), 2U);
    EXPECT_EQ(plan.segments[0].n_drafts() > 0, other != std::string("off")) << other;
  }
}

class PromptRows : public ReadingPrompts {
 protected:
  // Rows of each request's prompt in one step.
  std::vector<int> rows_of(const std::vector<int>& prompt_lens, int max_step_tokens) {
    std::list<std::unique_ptr<RequestState>> all;
    std::vector<const RequestState*> states;
    for (const int len : prompt_lens) {
      all.push_back(request("off"));
      set_prompt_len(all.back().get(), len);
      states.push_back(all.back().get());
    }
    Scheduler scheduler({16, 2048, kCpuPageLen, 1000, true, 0}, &costs_, &executor_);
    scheduler.add(&all);
    StepPlan plan;
    std::vector<SegmentOwner> owners;
    scheduler.schedule(max_step_tokens, &plan, &owners);
    std::vector<int> rows(states.size());
    for (size_t i = 0; i < owners.size(); ++i) {
      const auto at = std::find(states.begin(), states.end(), owners[i].request) - states.begin();
      rows[static_cast<size_t>(at)] += static_cast<int>(plan.segments[i].tokens.size());
    }
    return rows;
  }
};

// What an earlier prompt is about to bring into the cache is waited for.
TEST_F(PromptRows, WhatPromptsBeginWithIsReadOnce) {
  SchedulerOptions options{16, 2048, kCpuPageLen, 1000, true, 0};
  options.max_idle_pages = 100;
  Scheduler scheduler(options, &costs_, &executor_);
  std::list<std::unique_ptr<RequestState>> all;
  std::vector<RequestState*> states;
  for (const int last : {5, 5, 6}) {  // two are equal, the third has another third page
    all.push_back(request("off"));
    RequestState& state = *all.back();
    state.prompt.assign(101, 5);
    state.prompt[80] = last;
    state.max_text_len = 110;
    state.prefix_len = state.shared_len();
    states.push_back(&state);
  }
  scheduler.add(&all);
  StepPlan plan;
  std::vector<SegmentOwner> owners;
  const auto step = [&](int max_step_tokens) {
    scheduler.schedule(max_step_tokens, &plan, &owners);
    std::vector<int> rows(3);
    for (size_t i = 0; i < owners.size(); ++i) {
      if (owners[i].sequence != nullptr) continue;
      RequestState* state = owners[i].request;
      const auto n = static_cast<int>(plan.segments[i].tokens.size());
      rows[static_cast<size_t>(std::find(states.begin(), states.end(), state) - states.begin())] = n;
      state->main_prefix.set_len(plan.segments[i].start + n);
      state->draft_prefix.set_len(plan.segments[i].start + n);
      scheduler.share_prefix(state);
    }
    return rows;
  };
  EXPECT_EQ(step(40), (std::vector<int>{40, 0, 0}));
  EXPECT_EQ(step(40), (std::vector<int>{40, 0, 0})) << "its second page is on the way";
  EXPECT_EQ(step(200), (std::vector<int>{20, 0, 36})) << "the third one's last page is its own";
  EXPECT_EQ(states[1]->n_cached_tokens, 2 * kCpuPageLen);
  EXPECT_EQ(step(200), (std::vector<int>{0, 4, 0}));
  EXPECT_EQ(states[1]->n_cached_tokens, 3 * kCpuPageLen);
  // Two decode: of the third prompt's pages, two are read for the first one too.
  EXPECT_EQ(scheduler.regular_load().n_rows, 2);
  EXPECT_EQ(scheduler.regular_load().n_seen, 2 * 101);
  EXPECT_EQ(scheduler.regular_load().n_read, 2 * 101 - 2 * kCpuPageLen);
  EXPECT_EQ(states[1]->main_prefix.pages()[1], states[2]->main_prefix.pages()[1]);
  EXPECT_NE(states[1]->main_prefix.pages()[2], states[2]->main_prefix.pages()[2]);
}

// One whose prompt takes hundreds of steps must not keep the others waiting.
TEST_F(PromptRows, ShortPromptsAreReadBesideALongOne) {
  EXPECT_EQ(rows_of({10001}, 256), std::vector<int>{256});
  EXPECT_EQ(rows_of({10001, 41}, 256), (std::vector<int>{216, 40}));
  EXPECT_EQ(rows_of({10001, 5001, 41, 81}, 256), (std::vector<int>{128, 8, 40, 80}));
  EXPECT_EQ(rows_of({10001, 5001, 41, 201}, 256), (std::vector<int>{128, 0, 40, 88}));
}

TEST_F(PromptRows, EqualPromptsAreReadOneAfterTheOther) {
  EXPECT_EQ(rows_of({101, 101, 101, 101}, 256), (std::vector<int>{100, 100, 56, 0}));
  EXPECT_EQ(rows_of({301, 301}, 256), (std::vector<int>{128, 128}));
}

// As where a step is cut short for a deadline: it may be that of the short one.
TEST_F(PromptRows, AlsoOfFewRows) { EXPECT_EQ(rows_of({301, 11}, 48), (std::vector<int>{38, 10})); }

TEST_F(ReadingPrompts, TheNextDeadlineIsOfARequestThatIsThere) {
  const Clock::time_point now = Clock::now();
  std::list<std::unique_ptr<RequestState>> all = requests("off", 5);
  std::vector<RequestState*> states;
  for (const int seconds : {9, 0, 3, 3, 7}) {
    RequestState* state = std::next(all.begin(), static_cast<std::ptrdiff_t>(states.size()))->get();
    if (seconds > 0) state->deadline = now + std::chrono::seconds(seconds);
    states.push_back(state);
  }
  Scheduler scheduler({1, 256, kCpuPageLen, 1000, true, 0}, &costs_, &executor_);
  scheduler.add(&all);
  std::vector<RequestState*> unprepared;
  for (RequestState* state : states) state->policy = nullptr;
  scheduler.prepare_new([&](RequestState* state) {
    unprepared.push_back(state);
    state->policy = std::make_shared<PolicyState>();
    scheduler.watch(state);
  });
  EXPECT_EQ(unprepared, states);
  scheduler.prepare_new([](RequestState*) { FAIL() << "all are prepared"; });
  const auto end = [&](int idx) {
    scheduler.finish(states[static_cast<size_t>(idx)]->choices[0].get(), /*keeps_text=*/true);
    scheduler.remove_finished();
  };
  EXPECT_EQ(scheduler.next_deadline(), now + std::chrono::seconds(3));
  end(2);
  EXPECT_EQ(scheduler.next_deadline(), now + std::chrono::seconds(3)) << "two have it";
  end(3);
  EXPECT_EQ(scheduler.next_deadline(), now + std::chrono::seconds(7));
  end(1);
  end(4);
  EXPECT_EQ(scheduler.next_deadline(), now + std::chrono::seconds(9));
  end(0);
  EXPECT_EQ(scheduler.next_deadline(), std::nullopt);
  EXPECT_FALSE(scheduler.has_work());
}

TEST_F(ReadingPrompts, WhatHasEndedKeepsNoText) {
  std::list<std::unique_ptr<RequestState>> all;
  all.push_back(request("off", /*n_samples=*/2, /*max_tokens=*/5000));
  RequestState& state = *all.front();
  Scheduler scheduler({2, 256, kCpuPageLen, 1000, true, 0}, &costs_, &executor_);
  start(std::move(all), 64, &scheduler);
  StepPlan plan;
  std::vector<SegmentOwner> owners;
  scheduler.schedule(64, &plan, &owners);
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_GE(state.choices[0]->output.capacity(), 5000u);
  scheduler.finish(state.choices[0].get(), /*keeps_text=*/true);
  EXPECT_GE(state.choices[0]->output.capacity(), 5000u) << "the step is not over";
  scheduler.remove_finished();
  EXPECT_EQ(state.choices[0]->output.capacity(), 0u);
  EXPECT_GE(state.choices[1]->output.capacity(), 5000u);
}

TEST_F(ReadingPrompts, GoesOnBesideDraftsThatFillAStep) {
  constexpr int kSequences = 8, kStepTokens = 200, kDraftLen = 30;
  Scheduler scheduler({kSequences + 1, 1000, kCpuPageLen, 100, true, 1000}, &costs_, &executor_);
  start(requests("fixed:30", kSequences), kStepTokens, &scheduler);
  StepPlan plan;
  std::vector<SegmentOwner> owners;
  std::list<std::unique_ptr<RequestState>> last = requests("fixed:30", 1);
  last.front()->prompt.assign(400, 5);
  last.front()->prefix_len = 399;
  last.front()->max_text_len = 450;
  scheduler.add(&last);
  scheduler.schedule(kStepTokens, &plan, &owners);
  ASSERT_EQ(plan.segments.size(), static_cast<size_t>(kSequences) + 1);
  EXPECT_EQ(plan.segments.front().n_drafts(), kDraftLen);
  EXPECT_EQ(plan.segments.back().tokens.size(), static_cast<size_t>(kStepTokens / 4));
}

// What policies are told that tokens of the running sequences are worth, by their requests.
class Worths : public ReadingPrompts {
 protected:
  // Each request has one sample, runs at once and has emitted so many of 50 tokens.
  std::vector<float> after(std::list<std::unique_ptr<RequestState>> all, const std::vector<int>& n_emitted,
                           int max_batch = 8) {
    std::vector<RequestState*> states;
    for (const auto& state : all) {
      state->prompt.assign(1, 5);
      state->prefix_len = 0;
      state->max_text_len = 51;
      state->uses_draft_model = false;
      state->ngram_options = NgramOptions{};
      states.push_back(state.get());
    }
    measure(1.2);
    Scheduler scheduler({max_batch, 1000, kCpuPageLen, 64, false, 0}, &costs_, &executor_);
    scheduler.add(&all);
    StepPlan plan;
    std::vector<SegmentOwner> owners;
    scheduler.schedule(100, &plan, &owners);
    for (size_t i = 0; i < states.size(); ++i) {
      Sequence* sequence = states[i]->choices[0].get();
      for (int k = 0; k < n_emitted[i]; ++k) sequence->output.push_back(k);
    }
    scheduler.schedule(100, &plan, &owners);
    std::vector<float> found;
    for (const RunningSequence& sequence : scheduler.weighed()) found.push_back(sequence.worth);
    return found;
  }

  std::list<std::unique_ptr<RequestState>> of_jobs(const std::vector<uint64_t>& jobs) {
    std::list<std::unique_ptr<RequestState>> all;
    for (const uint64_t job : jobs) {
      all.push_back(request("goodput"));
      all.back()->request.job = job;
      all.back()->request.sampling.ignore_eos = true;
    }
    return all;
  }
};

TEST_F(Worths, RequestsOfOneJobWaitForTheLastOne) {
  const std::vector<float> found = after(of_jobs({1, 1, 1}), {30, 5, 30});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_GT(found[1], 1.5f);
  EXPECT_LT(found[0], 0.8f);
  EXPECT_EQ(found[0], found[2]);
}

TEST_F(Worths, WhereverInTheBatchTheyAre) {
  const std::vector<float> found = after(of_jobs({1, 0, 1, 2}), {30, 5, 5, 40});
  EXPECT_GT(found[2], 1.2f);
  EXPECT_NEAR(found[0] + found[2], 2, 1e-5);
  EXPECT_EQ(found[1], 1.0f);
  EXPECT_EQ(found[3], 1.0f);
}

// What else runs must not reach policies whose choices a seed fixes.
TEST_F(Worths, OnlyOfPoliciesThatMeasureTimes) {
  for (const char* policy : {"survival", "bass", "fixed:3"}) {
    auto all = of_jobs({1, 1, 1});
    for (const auto& state : all) state->policy = request(policy)->policy;
    EXPECT_EQ(after(std::move(all), {30, 5, 30}), std::vector<float>(3, 1.0f)) << policy;
  }
}

TEST_F(Worths, OthersDoNot) {
  const std::vector<float> ones(3, 1.0f);
  EXPECT_EQ(after(of_jobs({0, 0, 0}), {30, 5, 30}), ones);
  EXPECT_EQ(after(of_jobs({1, 2, 3}), {30, 5, 30}), ones);
}

TEST_F(Worths, SamplesOfARequestDo) {
  std::list<std::unique_ptr<RequestState>> all;
  all.push_back(request("goodput", 2));
  all.front()->request.n = 2;
  all.front()->request.sampling.ignore_eos = true;
  const std::vector<float> found = after(std::move(all), {30});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_GT(found[1], 1.2f) << "the other sample has emitted nothing";
}

// Noise may be the same where policies are not.
TEST_F(Worths, WhoDoesNotLearnTogetherIsNotWeighedTogether) {
  auto all = of_jobs({1, 1, 1});
  all.back()->policy = PolicyRegistry().get("goodput", all.back()->draft_length, 7);
  const std::vector<float> found = after(std::move(all), {30, 5, 5});
  EXPECT_GT(found[1], 1.2f);
  EXPECT_EQ(found[2], 1.0f);
}

TEST_F(Worths, NothingIsWeighedUnderADeadlineOrWhileOthersWait) {
  auto all = of_jobs({1, 1, 1});
  for (const auto& state : all) state->deadline = Clock::now();
  EXPECT_EQ(after(std::move(all), {30, 5, 30}), std::vector<float>(3, 1.0f));
  EXPECT_EQ(after(of_jobs({1, 1, 1}), {30, 5, 0}, /*max_batch=*/2), std::vector<float>(2, 1.0f));
}

}  // namespace
}  // namespace bass
