// Who gets the places of a batch, its pages, and the time that a step has for new prompts.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/scheduler_testing.h"

namespace bass {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of the scheduler share

class Admission : public SchedulerTest {
 protected:
  void make(int max_batch, int n_pages) {
    scheduler_.emplace(SchedulerOptions{max_batch, 100'000, kCpuPageLen, n_pages, false, 0}, &costs_, &executor_);
  }
  RequestState* add(int n_samples, int prompt_len = 2, int max_tokens = 20) {
    std::list<std::unique_ptr<RequestState>> one;
    one.push_back(request("off", n_samples, max_tokens));
    RequestState* state = one.front().get();
    set_prompt_len(state, prompt_len);
    state->uses_draft_model = false;
    scheduler_->add(&one);
    return state;
  }
  // Plans a step, and what it would have read of prompts is read but for those of `held`.
  void step(std::vector<const RequestState*> held = {}) {
    scheduler_->schedule(100'000, &plan_, &owners_);
    for (const SegmentOwner& owner : owners_) {
      if (owner.sequence == nullptr && std::ranges::count(held, owner.request) == 0)
        owner.request->main_prefix.set_len(owner.request->prefix_len);
    }
  }
  static std::vector<Sequence*> running(const RequestState& state) {
    std::vector<Sequence*> found;
    for (const auto& choice : state.choices) {
      if (choice->is_started && !choice->is_finished) found.push_back(choice.get());
    }
    return found;
  }
  static int n_running(const RequestState& state) { return static_cast<int>(running(state).size()); }
  void end_one(const RequestState& state) {
    scheduler_->finish(running(state).front(), /*keeps_text=*/false);
    scheduler_->remove_finished();
  }

  std::optional<Scheduler> scheduler_;
  StepPlan plan_;
  std::vector<SegmentOwner> owners_;
};

TEST_F(Admission, OneRequestMayHaveAllPlaces) {
  make(8, 1000);
  const RequestState* many = add(100);
  step();
  step();
  EXPECT_EQ(n_running(*many), 8);
}

// A call for hundreds of samples does not keep others waiting until all are done.
TEST_F(Admission, LeavesPlacesToThoseWhoWait) {
  make(8, 1000);
  const RequestState* many = add(100);
  step();
  step();
  const RequestState* also_many = add(100);
  const RequestState* one = add(1);
  for (int i = 0; i < 8; ++i) {
    end_one(*many);
    step();
  }
  EXPECT_EQ(n_running(*one), 1);
  EXPECT_EQ(n_running(*many), 5) << "half of all, and what nobody may have";
  EXPECT_EQ(n_running(*also_many), 2) << "half of what is left";
  EXPECT_EQ(n_running(*many) + n_running(*also_many) + n_running(*one), 8) << "no place is empty";
  // Nobody waits any more.
  end_one(*one);
  for (const auto& sample : also_many->choices) scheduler_->finish(sample.get(), /*keeps_text=*/false);
  scheduler_->remove_finished();
  step();
  EXPECT_EQ(n_running(*many), 8);
}

// Where pages are what lacks, too.
TEST_F(Admission, LeavesPagesToThoseWhoWait) {
  make(8, 8);
  const RequestState* many = add(100, /*prompt_len=*/2, /*max_tokens=*/40);  // a page for the prompt, two for a sample
  step();
  step();
  ASSERT_EQ(n_running(*many), 3);
  const RequestState* one = add(1, /*prompt_len=*/2, /*max_tokens=*/40);
  for (int i = 0; i < 4 && !one->is_admitted; ++i) {
    end_one(*many);
    step();
  }
  step();
  EXPECT_EQ(n_running(*one), 1);
  EXPECT_EQ(n_running(*many), 2) << "four of eight pages";
}

class Turns : public Admission {
 protected:
  void SetUp() override { make(1, 1000); }
  std::vector<RequestState*> arrive(uint64_t job, int n) {
    std::vector<RequestState*> states;
    for (int i = 0; i < n; ++i) {
      states.push_back(add(1));
      states.back()->request.job = job;
      const auto policy = std::exchange(states.back()->policy, nullptr);
      scheduler_->prepare_new([&](RequestState* prepared) { prepared->policy = policy; });
    }
    return states;
  }
  // The jobs of the next n that run, each to its end.
  std::vector<uint64_t> run(int n) {
    std::vector<uint64_t> order;
    for (int i = 0; i < n; ++i) {
      step();
      step();  // its prompt was read
      const auto& first = *scheduler_->requests().front();
      order.push_back(first.request.job);
      end_one(first);
    }
    return order;
  }
};

TEST_F(Turns, OfEachJobOneRequest) {
  arrive(1, 6);
  EXPECT_EQ(run(2), (std::vector<uint64_t>{1, 1}));
  arrive(2, 2);
  arrive(0, 1);  // a job of its own
  arrive(0, 1);
  EXPECT_EQ(run(4), (std::vector<uint64_t>{1, 2, 0, 0}));
  arrive(3, 3);
  EXPECT_EQ(run(6), (std::vector<uint64_t>{1, 2, 3, 1, 3, 1}));
}

// Of requests that come at once, too, where each looks for its place from the last one's.
TEST_F(Turns, ThoseThatComeAtOnce) {
  std::list<std::unique_ptr<RequestState>> all;
  std::shared_ptr<PolicyState> policy;
  for (const uint64_t job : {1, 1, 1, 2, 2, 0, 0, 1}) {
    all.push_back(request("off"));
    all.back()->request.job = job;
    all.back()->uses_draft_model = false;
    policy = std::exchange(all.back()->policy, nullptr);
  }
  scheduler_->add(&all);
  scheduler_->prepare_new([&](RequestState* state) { state->policy = policy; });
  EXPECT_EQ(run(8), (std::vector<uint64_t>{1, 2, 0, 0, 1, 2, 1, 1}));
}

TEST_F(Turns, NobodyWaitsForTurnsOfThoseWhoWentAway) {
  const std::vector<RequestState*> states = arrive(1, 6);
  EXPECT_EQ(run(1), (std::vector<uint64_t>{1}));
  for (size_t i = 1; i < 5; ++i) scheduler_->finish(states[i]->choices[0].get(), /*keeps_text=*/false);
  scheduler_->remove_finished();
  arrive(2, 1);
  EXPECT_EQ(run(2), (std::vector<uint64_t>{1, 2}));
}

// Prompts of one file are wanted together, and come in their order.
TEST_F(Admission, RequestsOfOneJobKeepTheirOrder) {
  make(8, 1000);
  RequestState* first = add(12);
  RequestState* second = add(12);
  first->request.job = second->request.job = 5;
  step();
  step();
  EXPECT_EQ(n_running(*first), 8);
  for (int i = 0; i < 4; ++i) {
    end_one(*first);
    step();
  }
  EXPECT_EQ(n_running(*first), 8);
  EXPECT_EQ(n_running(*second), 0);
}

// The pages of a request that was admitted are its own, whoever waits for more in front of it.
TEST_F(Admission, WhatWasPromisedMayStart) {
  make(8, 4);
  const RequestState* first = add(4);
  const RequestState* second = add(1);
  step({second});
  EXPECT_GE(n_running(*first), 0);
  step({second});
  const int n_first = n_running(*first);
  EXPECT_GE(n_first, 1);
  EXPECT_LT(n_first, 4) << "pages for all of them would leave none";
  step();
  step();
  EXPECT_EQ(n_running(*second), 1);
}

// Prompts that are read keep their places when those before them may have more: a step has as many segments at most.
TEST_F(Admission, PromptsThatAreReadKeepTheirPlaces) {
  make(8, 1000);
  RequestState* many = add(8);
  RequestState* other = add(1);
  std::vector<RequestState*> long_ones = {add(1), add(1), add(1)};
  for (RequestState* state : {many, long_ones[0], long_ones[1], long_ones[2]}) state->request.job = 1;
  other->request.job = 2;
  const std::vector<const RequestState*> held(long_ones.begin(), long_ones.end());
  for (int i = 0; i < 6; ++i) {
    step(held);
    EXPECT_LE(plan_.segments.size(), 8u) << i;
  }
  EXPECT_EQ(n_running(*other), 1);
  EXPECT_EQ(n_running(*many), 4) << "all but one place each of the others";
  for (int i = 0; i < 2; ++i) {
    step();
    EXPECT_LE(plan_.segments.size(), 8u) << i;
  }
  for (const RequestState* state : long_ones) EXPECT_EQ(n_running(*state), 1);
  EXPECT_EQ(n_running(*many), 4);
}

// The same of any batch: requests of several jobs that come and go, whose prompts take a while.
TEST_F(Admission, AStepHasNoMoreSegmentsThanPlaces) {
  std::mt19937 random(1);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n + 1)); };
  for (int round = 0; round < 200; ++round) {
    const int max_batch = 1 + upto(8);
    make(max_batch, 20 + upto(100));
    std::vector<RequestState*> all;
    for (int i = 0; i < 40; ++i) {
      for (int n = upto(2); n > 0 && all.size() < 60; --n) {
        all.push_back(add(1 + upto(9)));
        all.back()->request.job = static_cast<uint64_t>(1 + upto(1));
      }
      std::vector<const RequestState*> held;
      for (const auto& state : scheduler_->requests()) {
        if (upto(3) > 0) held.push_back(state.get());
      }
      step(held);
      ASSERT_LE(plan_.segments.size(), static_cast<size_t>(max_batch)) << round << ", " << i;
      for (int n = upto(2); n > 0; --n) {
        const auto& requests = scheduler_->requests();
        const auto ending = std::ranges::find_if(requests, [](const auto& state) { return n_running(*state) > 0; });
        if (ending != requests.end()) end_one(**ending);
      }
    }
    for (int i = 0; !scheduler_->requests().empty(); ++i) {
      ASSERT_LT(i, 2000) << "nothing waits for ever";
      step();
      const auto requests =
          std::ranges::count_if(scheduler_->requests(), [](const auto& s) { return n_running(*s) > 0; });
      if (requests == 0) continue;
      end_one(**std::ranges::find_if(scheduler_->requests(), [](const auto& s) { return n_running(*s) > 0; }));
    }
  }
}

// All sequences wait while prompts are indexed.
TEST_F(Admission, FewLongPromptsInAStep) {
  make(8, 10'000);
  std::vector<const RequestState*> all;
  for (int i = 0; i < 4; ++i) all.push_back(add(1, 10'000));
  const auto n_admitted = [&] {
    return std::count_if(all.begin(), all.end(), [](const RequestState* state) { return state->is_admitted; });
  };
  for (int n = 1; n <= 4; ++n) {
    step();
    EXPECT_EQ(n_admitted(), n);
  }
}

// The pages that samples share are read once, wherever they stand in the batch.
TEST_F(Admission, SamplesThatAreNoNeighboursReadTheirPromptOnce) {
  make(4, 1000);
  RequestState* first = add(3, /*prompt_len=*/200);
  RequestState* second = add(4, /*prompt_len=*/100);
  first->request.job = second->request.job = 1;
  step({first});
  step({first});
  step();
  step();
  ASSERT_EQ(n_running(*first) + n_running(*second), 4);
  end_one(*second);
  step();
  const StepLoad& load = scheduler_->regular_load();
  EXPECT_EQ(load.n_rows, 4);
  const auto shared = [](const RequestState& state) { return state.shared_len() / kCpuPageLen * kCpuPageLen; };
  double n_again = 0;
  for (const RequestState* state : {first, second}) n_again += std::max(n_running(*state) - 1, 0) * shared(*state);
  EXPECT_EQ(load.n_seen - load.n_read, n_again);
}

// A prompt that is read says nothing of drafts, nor do sequences without a drafter.
TEST_F(Admission, PoliciesAreUsedByThoseWhoDraft) {
  make(4, 1000);
  RequestState* state = add(1);
  state->policy = request("fixed:3")->policy;
  step();
  EXPECT_FALSE(state->policy->is_used) << "its prompt";
  step();
  ASSERT_EQ(n_running(*state), 1);
  EXPECT_FALSE(state->policy->is_used) << "it has no drafter";
  state->ngrams = std::make_unique<NgramIndex>(state->prompt, 1, NgramOptions{});
  step();
  EXPECT_TRUE(state->policy->is_used) << "though it finds nothing";
}

}  // namespace
}  // namespace bass
