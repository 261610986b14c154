#include <algorithm>
#include <cmath>
#include <vector>

#include "speculation/simulation/length_chooser.h"

namespace bass {
namespace {

void draft_all(int len, std::span<DraftCandidate> candidates) {
  for (DraftCandidate& candidate : candidates) candidate.len = std::min(len, candidate.max_len);
}

double tokens_of(int n_sequences, std::span<const DraftOutcome> outcomes) {
  double n_tokens = n_sequences;
  for (const DraftOutcome& outcome : outcomes) n_tokens += outcome.n_accepted;
  return n_tokens;
}

class Bandit final : public LengthChooser {
 public:
  explicit Bandit(int max_len) : arms_(static_cast<size_t>(max_len) + 1) {}

  [[nodiscard]] int max_len() const override { return static_cast<int>(arms_.size()) - 1; }

  void choose(const StepLoad&, std::span<DraftCandidate> candidates) override {
    double n_all = 1;
    double best_mean = 1e-30;  // rewards count as shares of it
    for (const Arm& arm : arms_) {
      n_all += arm.n;
      best_mean = std::max(best_mean, arm.mean());
    }
    const auto bound = [&](const Arm& arm) {
      if (arm.n < 0.5) return 1e30;
      return arm.mean() / best_mean + kWidth * std::sqrt(std::log(n_all) / arm.n);
    };
    played_ = static_cast<size_t>(
        std::max_element(arms_.begin(), arms_.end(), [&](const Arm& a, const Arm& b) { return bound(a) < bound(b); }) -
        arms_.begin());
    draft_all(static_cast<int>(played_), candidates);
  }

  void learn(const StepCost& cost, int n_sequences, std::span<const DraftOutcome> outcomes) override {
    for (Arm& arm : arms_) {
      arm.n *= kMemory;
      arm.sum *= kMemory;
    }
    arms_[played_].n += 1;
    arms_[played_].sum += tokens_of(n_sequences, outcomes) / (cost.step_s + cost.draft_s);
  }

 private:
  static constexpr double kWidth = 0.15;    // of the bounds, in shares of the best mean
  static constexpr double kMemory = 0.999;  // of a step's reward, a step later
  struct Arm {
    double n = 0;
    double sum = 0;
    [[nodiscard]] double mean() const { return n > 0 ? sum / n : 0; }
  };
  std::vector<Arm> arms_;
  size_t played_ = 0;
};

class Gradient final : public LengthChooser {
 public:
  explicit Gradient(int max_len) : max_len_(max_len) {}

  [[nodiscard]] int max_len() const override { return max_len_; }

  void choose(const StepLoad&, std::span<DraftCandidate> candidates) override {
    const double wanted = std::clamp(centre_ + (is_above_ ? kStep : -kStep), 0.0, 1.0 * max_len_);
    carry_ += wanted - std::floor(wanted);  // lengths whose mean is what is wanted
    const bool is_longer = carry_ >= 1;
    carry_ -= is_longer ? 1 : 0;
    draft_all(static_cast<int>(wanted) + (is_longer ? 1 : 0), candidates);
  }

  void learn(const StepCost& cost, int n_sequences, std::span<const DraftOutcome> outcomes) override {
    Side& side = sides_[is_above_ ? 1 : 0];
    side.n_tokens += tokens_of(n_sequences, outcomes);
    side.seconds += cost.step_s + cost.draft_s;
    if (++n_steps_ % kBlock != 0) return;
    is_above_ = !is_above_;
    if (n_steps_ % (2 * kBlock) != 0) return;
    const bool is_uphill = sides_[1].n_tokens / sides_[1].seconds > sides_[0].n_tokens / sides_[0].seconds;
    centre_ = std::clamp(centre_ + (is_uphill ? kRate : -kRate), 0.0, 1.0 * max_len_);
    sides_[0] = sides_[1] = {};
  }

 private:
  static constexpr double kStep = 0.5;
  static constexpr double kRate = 0.25;
  static constexpr int kBlock = 8;
  struct Side {
    double n_tokens = 0;
    double seconds = 0;
  };
  int max_len_;
  double centre_ = 2;
  double carry_ = 0;
  bool is_above_ = false;
  int64_t n_steps_ = 0;
  Side sides_[2];
};

}  // namespace

std::unique_ptr<LengthChooser> study_policy(std::string_view name, int max_len) {
  if (name == "bandit") return std::make_unique<Bandit>(max_len);
  if (name == "gradient") return std::make_unique<Gradient>(max_len);
  return nullptr;
}

}  // namespace bass
