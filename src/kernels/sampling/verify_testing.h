// What the tests of the verification rules share: setups of toy models, and the distributions that must come out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/sampling/chi_square.h"
#include "kernels/sampling/toy_decoder.h"
#include "kernels/sampling/toy_enumerator.h"

namespace bass::testing {

inline constexpr size_t kTextLen = 3;
// Sanitizers are slow and look for something else; the controls are still rejected with fewer texts.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr uint64_t kTexts = 40000;
#else
inline constexpr uint64_t kTexts = 200000;
#endif

inline const cpu::Kernels* kernels() { return cpu::select_kernels().value(); }

// Any function of what is known before a round's first draft is drawn is allowed.
inline int length_by_accepted(const PolicyView& view) {
  return view.n_accepted < 0 ? 2 : (view.n_accepted * 2 + 1) % 5;
}

inline ToySetup model_setup(VerifyRule rule) {
  ToySetup setup;
  setup.main.id = 1;
  setup.draft.id = 2;
  setup.params.rule = rule;
  return setup;
}

// A larger vocabulary, in which a residual has several tokens.
inline ToySetup wide_setup(VerifyRule rule) {
  ToySetup setup = model_setup(rule);
  setup.main.n_vocab = setup.draft.n_vocab = 8;
  setup.main.spread = setup.draft.spread = 2.0;
  setup.length = fixed_length(3);
  return setup;
}

// Independent of the code under test: products of softmaxes in double precision.
inline std::vector<double> exact_joint(const ToyModel& model, size_t text_len = kTextLen) {
  std::vector<double> joint{1.0};
  std::vector<Tokens> prefixes{{}};
  for (size_t i = 0; i < text_len; ++i) {
    std::vector<double> next;
    std::vector<Tokens> next_prefixes;
    for (size_t j = 0; j < joint.size(); ++j) {
      const std::vector<float> logits = model.logits(prefixes[j]);
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      for (size_t token = 0; token < logits.size(); ++token) {
        next.push_back(joint[j] * std::exp(static_cast<double>(logits[token])) / sum);
        next_prefixes.push_back(prefixes[j]);
        next_prefixes.back().push_back(static_cast<TokenId>(token));
      }
    }
    joint = next;
    prefixes = next_prefixes;
  }
  return joint;
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

inline std::vector<int64_t> sampled_counts(const ToySetup& setup, size_t n_texts) {
  ToyDecoder decoder(kernels(), setup);
  std::vector<int64_t> counts(n_texts);
  for (uint64_t seed = 0; seed < kTexts; ++seed) ++counts[decoder.index_of(decoder.generate(seed, kTextLen))];
  return counts;
}

inline double sampled_z(const ToySetup& setup, const std::vector<double>& expected) {
  return chi_square_z(sampled_counts(setup, expected.size()), expected);
}

// The setups over which exactness is shown: model drafts, one-hot drafts, a smaller draft vocabulary, a draft
// that is the main model, and processors that cut both distributions.
inline std::vector<std::pair<const char*, ToySetup>> exact_setups(VerifyRule rule) {
  std::vector<std::pair<const char*, ToySetup>> setups;
  setups.emplace_back("model", model_setup(rule));
  setups.emplace_back("one-hot", model_setup(rule));
  setups.back().second.draft_kind = DraftKind::kOneHot;
  setups.emplace_back("mixed", model_setup(rule));
  setups.back().second.draft_kind = DraftKind::kMixed;
  setups.emplace_back("smaller vocabulary", model_setup(rule));
  setups.back().second.draft.n_vocab = 3;
  setups.emplace_back("main model as draft", model_setup(rule));
  setups.back().second.draft = setups.back().second.main;
  setups.emplace_back("processors", model_setup(rule));
  setups.back().second.params.temperature = 0.7f;
  setups.back().second.params.top_k = 3;
  setups.back().second.params.top_p = 0.9f;
  setups.back().second.params.frequency_penalty = 0.4f;
  setups.back().second.params.repetition_penalty = 1.2f;
  return setups;
}

}  // namespace bass::testing
