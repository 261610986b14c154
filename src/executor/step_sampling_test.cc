#include "executor/step_sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace bass {
namespace {

constexpr int kVocab = 16;  // so few that drafts are likely to propose any of them
constexpr int kDraftLen = 3;
constexpr int kSegments = 3000;
constexpr TokenId kKnown = 5;

// Which logits a row has depends on how many tokens were drafted in front of it, and on nothing else.
std::vector<float> logits_of(int row, int n, float spread, uint32_t seed) {
  std::mt19937 random(seed + static_cast<uint32_t>(row));
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> row;
  double sum = 0;
  for (const float logit : logits) sum += row.emplace_back(std::exp(logit / temperature));
  for (double& p : row) p /= sum;
  return row;
}

// The chance that `match` accepts a draft from q, by its definition.
double agreement(const std::vector<double>& p, const std::vector<double>& q) {
  double chance = 0;
  for (size_t x = 0; x < p.size(); ++x) {
    double sum = 0;
    for (size_t y = 0; y < p.size(); ++y) sum += std::max(p[y] / p[x], q[y] / q[x]);
    chance += 1 / sum;
  }
  return chance;
}

struct Rounds {
  SamplingParams sampling{.temperature = 0.8f, .rule = VerifyRule::kMatch};
  std::vector<TokenId> proposed;  // by a host drafter; empty: the draft model drafts
};

class StepSamplingTest : public ::testing::Test {
 protected:
  StepSamplingTest() {
    for (int row = 0; row <= kDraftLen; ++row) {
      main_.push_back(logits_of(row, kVocab, 0.8f, 1));
      draft_.push_back(logits_of(row, kVocab, 0.5f, 100));
      for (size_t i = 0; i < kVocab; ++i) draft_.back()[i] += main_.back()[i];
    }
  }

  // Drafts and verifies kDraftLen tokens for each of many sequences, which have noise of their own.
  const StepResult& run(const Rounds& rounds) {
    options_.n_threads = 2;
    sampling_.emplace(cpu::select_kernels().value(), options_);
    EXPECT_TRUE(sampling_->open({kVocab, kVocab, kVocab, kVocab, {}, false}));
    plan_.clear();
    for (int i = 0; i < kSegments; ++i) {
      SegmentPlan& segment = plan_.segments.emplace_back();
      segment.tokens = std::span(&kKnown, 1);
      segment.wants_sample = true;
      segment.sampling = rounds.sampling;
      segment.sampling.seed = static_cast<uint64_t>(i);
      segment.proposed = rounds.proposed;
      if (rounds.proposed.empty()) segment.n_model_drafts = kDraftLen;
    }
    sampling_->prepare(plan_);
    ThreadTeam team(2);
    std::vector<int> first_rows;
    std::vector<int> segments;
    for (int i = 0; i < kSegments; ++i) {
      first_rows.push_back(i * (kDraftLen + 1));
      segments.push_back(i);
    }
    for (int k = 0; k < kDraftLen && rounds.proposed.empty(); ++k) {
      std::vector<float> logits;
      for (int i = 0; i < kSegments; ++i) logits.insert(logits.end(), draft_row(k), draft_row(k) + kVocab);
      team.run([&](const TeamContext& context) { sampling_->draft_rows(context, segments, logits.data()); });
    }
    sampling_->want_rows(first_rows);
    const size_t n_wanted = sampling_->wanted_rows().size();
    for (size_t begin = 0; begin < n_wanted; begin += kLogitsBlockRows) {
      const size_t end = std::min(n_wanted, begin + kLogitsBlockRows);
      std::vector<float> logits;
      for (size_t i = begin; i < end; ++i) {
        const std::vector<float>& row = main_[static_cast<size_t>(sampling_->wanted()[i].idx)];
        logits.insert(logits.end(), row.begin(), row.end());
      }
      team.run([&](const TeamContext& context) { sampling_->verify_rows(context, begin, end, logits.data()); });
    }
    sampling_->collect();
    return sampling_->result();
  }

  [[nodiscard]] const float* draft_row(int k) const { return draft_[static_cast<size_t>(k)].data(); }

  std::vector<std::vector<float>> main_;  // [kDraftLen + 1, kVocab]
  std::vector<std::vector<float>> draft_;
  ExecutorOptions options_;
  StepPlan plan_;
  std::optional<StepSampling> sampling_;
};

// The chance that `rejection` and `block` accept a draft from q behind accepted ones, before it is drawn.
double overlap(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t x = 0; x < p.size(); ++x) sum += std::min(p[x], q[x]);
  return sum;
}

// Labels must be the chances, up to and with the first rejected token; and the chances what comes out.
void expect_labels(const StepResult& result, const std::vector<double>& chances) {
  constexpr double kBounds = 0.005;  // of rows whose every token counts
  std::vector<int> n_reached(kDraftLen), n_accepted(kDraftLen);
  for (const SegmentResult& segment : result.segments) {
    ASSERT_EQ(segment.n_drafted, kDraftLen);
    ASSERT_EQ(segment.labels.size(), static_cast<size_t>(std::min(segment.n_accepted + 1, kDraftLen)));
    for (size_t k = 0; k < segment.labels.size(); ++k) {
      EXPECT_NEAR(segment.labels[k].chance, chances[k], kBounds);
      EXPECT_EQ(segment.labels[k].weight, 1) << "it was reached";
      ++n_reached[k];
      n_accepted[k] += static_cast<int>(k) < segment.n_accepted ? 1 : 0;
    }
  }
  for (size_t k = 0; k < kDraftLen; ++k) {
    const double deviation = std::sqrt(chances[k] * (1 - chances[k]) * n_reached[k]);
    EXPECT_NEAR(n_accepted[k], chances[k] * n_reached[k], 4.5 * deviation) << k;
  }
}

TEST_F(StepSamplingTest, MatchIsLabelledWithTheChanceOfTheSameToken) {
  for (const float temperature : {0.8f, 1.0f}) {
    Rounds rounds;
    rounds.sampling.temperature = temperature;
    std::vector<double> chances;
    for (size_t k = 0; k < kDraftLen; ++k) {
      chances.push_back(agreement(softmax(main_[k], temperature), softmax(draft_[k], temperature)));
      EXPECT_GT(chances.back(), 0.3);
      EXPECT_LT(chances.back(), 0.9);
    }
    expect_labels(run(rounds), chances);
  }
}

TEST_F(StepSamplingTest, RejectionIsLabelledWithTheOverlapWhateverWasDrawn) {
  Rounds rounds{{.temperature = 0.8f, .rule = VerifyRule::kRejection}, {}};
  std::vector<double> chances;
  for (size_t k = 0; k < kDraftLen; ++k) {
    chances.push_back(overlap(softmax(main_[k], 0.8), softmax(draft_[k], 0.8)));
    EXPECT_GT(chances.back(), 0.4);
    EXPECT_LT(chances.back(), 0.9);
  }
  expect_labels(run(rounds), chances);
}

// p_k of block verification: the mean over what q draws in front of the k-th token.
double mean_joint(const std::vector<std::vector<double>>& p, const std::vector<std::vector<double>>& q, size_t k,
                  size_t i = 0, double joint = 1) {
  if (i == k) return joint;
  double mean = 0;
  for (size_t x = 0; x < q[i].size(); ++x) {
    mean += q[i][x] * mean_joint(p, q, k, i + 1, std::min(1.0, joint * p[i][x] / q[i][x]));
  }
  return mean;
}

// `block` looks at every token, however unlikely it was to be reached: its labels end nowhere, and weigh what that is.
TEST_F(StepSamplingTest, BlockIsLabelledToItsEndByTheChanceToGetThere) {
  Rounds rounds{{.temperature = 0.8f, .rule = VerifyRule::kBlock}, {}};
  std::vector<std::vector<double>> p, q;
  for (size_t k = 0; k < kDraftLen; ++k) {
    p.push_back(softmax(main_[k], 0.8));
    q.push_back(softmax(draft_[k], 0.8));
  }
  std::vector<double> weights(kDraftLen), accepted(kDraftLen);
  for (const SegmentResult& segment : run(rounds).segments) {
    ASSERT_EQ(segment.labels.size(), static_cast<size_t>(kDraftLen));
    double joint = 1;
    for (size_t k = 0; k < kDraftLen; ++k) {
      EXPECT_NEAR(segment.labels[k].chance, overlap(p[k], q[k]), 0.005);
      weights[k] += segment.labels[k].weight;
      if (static_cast<int>(k) > segment.n_accepted) continue;  // which tokens those were is not told
      EXPECT_NEAR(segment.labels[k].weight, joint, 0.02);
      accepted[k] += segment.labels[k].weight;
      const auto x = static_cast<size_t>(segment.tokens[k].id);
      joint = std::min(1.0, joint * p[k][x] / q[k][x]);
    }
  }
  for (size_t k = 1; k < kDraftLen; ++k) {
    const double expected = kSegments * mean_joint(p, q, k);
    EXPECT_NEAR(weights[k], expected, 4.5 * std::sqrt(0.25 * kSegments)) << k;
    EXPECT_LT(accepted[k], 0.9 * expected) << "labels of what was accepted alone would be another mean";
  }
}

TEST_F(StepSamplingTest, MatchOfACertainDraftIsLabelledWithItsProbability) {
  Rounds rounds;
  std::vector<double> chances;
  for (size_t k = 0; k < kDraftLen; ++k) {
    const std::vector<double> p = softmax(main_[k], 0.8);
    rounds.proposed.push_back(static_cast<TokenId>(std::max_element(p.begin(), p.end()) - p.begin()));
    chances.push_back(p[static_cast<size_t>(rounds.proposed.back())]);
  }
  expect_labels(run(rounds), chances);
}

TEST_F(StepSamplingTest, GreedyTokensHaveNoChancesToTell) {
  Rounds rounds;
  rounds.sampling.temperature = 0;
  for (const SegmentResult& segment : run(rounds).segments) EXPECT_TRUE(segment.labels.empty());
}

// A device says of `match` what became of its drafts, and no more.
TEST_F(StepSamplingTest, MatchOnADeviceHasNoLabels) {
  StepSampling sampling(cpu::select_kernels().value(), options_);
  ASSERT_TRUE(sampling.open({kVocab, kVocab, kVocab, kVocab, {}, false}, /*is_on_device=*/true));
  SegmentPlan segment;
  segment.tokens = std::span(&kKnown, 1);
  segment.wants_sample = true;
  segment.sampling.rule = VerifyRule::kMatch;
  segment.n_model_drafts = 1;
  plan_.segments = {segment};
  sampling.prepare(plan_);
  sampling.take_drafted(0, 7);
  sampling.want_rows(std::vector<int>{0});
  sampling.take_verdict(0, {.accepted = true, .token = 7}, 0, {});
  sampling.take_verdict(1, {.accepted = false, .token = 9}, 0, {});
  sampling.collect();
  EXPECT_EQ(sampling.segment_result(0).n_accepted, 1);
  EXPECT_TRUE(sampling.segment_result(0).labels.empty());
}

}  // namespace
}  // namespace bass
