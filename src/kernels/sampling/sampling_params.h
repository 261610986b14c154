// How one request's tokens are sampled, as a plain row that a device can read.
#pragma once

#include <cstdint>
#include <span>

#include "bass/types.h"
#include "kernels/cuda/host_device.h"

namespace bass {

struct LogitBias {
  TokenId id = 0;
  float bias = 0;
};

/// Temperatures below this count as 0 (greedy): 1 / temperature would leave the range of the logits.
inline constexpr float kMinTemperature = 1e-4f;

/// The processors of a request, in the order in which they act on a row of logits:
///   1. repetition penalty r: a logit above 0 is divided by r, another one multiplied; for every distinct token of the
///      prompt, the output and the drafted prefix, once
///   2. presence and frequency penalty: minus presence + count * frequency; tokens of the output and the drafted prefix
///   3. logit bias, each entry added
///   4. tokens banned there (banned_behind), and those that a grammar does not allow (TokenHistory::allowed): -inf
///   5. temperature: divided by it. Greedy (0) ends here: all mass on the highest logit, the lowest id of equal ones
///   6. top-k: the k highest (of equal logits the lower ids)
///   7. top-p: of these, renormalised, the fewest highest ones whose mass is at least top_p; at least one
///   8. min-p: of these, the ones with at least min_p times the highest probability
/// The result, renormalised, is the distribution that is sampled, drafted from and verified against.
///
/// Values are validated where the request is made. The arrays belong to the request and outlive the step.
struct SamplingParams {
  float temperature = 1.0f;         // >= 0
  float top_p = 1.0f;               // (0, 1]; 1 = off
  float min_p = 0.0f;               // [0, 1]; 0 = off
  float repetition_penalty = 1.0f;  // > 0; 1 = off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t top_k = 0;                // 0 = off
  const LogitBias* bias = nullptr;  // [n_bias]
  int32_t n_bias = 0;
  const TokenId* banned = nullptr;  // [n_banned], which may have one twice
  int32_t n_banned = 0;
  int32_t n_banned_early = 0;  // of these, the last ones: banned behind fewer than n_early drafted tokens alone
  int32_t n_early = 0;         // of the step
  uint64_t seed = 0;
  uint32_t sample_idx = 0;  // samples of one request differ in it: their random numbers are independent
  VerifyRule rule = VerifyRule::kRejection;

  [[nodiscard]] BASS_HD bool is_greedy() const { return temperature < kMinTemperature; }
  [[nodiscard]] BASS_HD bool has_penalties() const {
    return repetition_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
  /// Some processor before the temperature is on.
  [[nodiscard]] BASS_HD bool edits_logits() const { return has_penalties() || n_bias > 0 || !banned_behind(0).empty(); }
  /// Behind so many drafted tokens.
  [[nodiscard]] BASS_HD std::span<const TokenId> banned_behind(size_t n_drafted) const {
    const int32_t n = n_drafted < static_cast<size_t>(n_early) ? n_banned : n_banned - n_banned_early;
    return {banned, static_cast<size_t>(n)};
  }
  /// Some processor after the temperature is on, for a vocabulary of n tokens.
  [[nodiscard]] BASS_HD bool truncates(int n) const { return (top_k > 0 && top_k < n) || top_p < 1.0f || min_p > 0.0f; }
};

/// The tokens in front of a position, in order, and what follows from them. A processor that needs the history sees the
/// drafted prefix too.
struct TokenHistory {
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;   // committed
  std::span<const TokenId> drafted;  // this round's drafted tokens in front of the position
  /// The tokens that a grammar allows behind them: bit id % 32 of word id / 32; of all ids that rows have. Null: all.
  const uint32_t* allowed = nullptr;

  [[nodiscard]] BASS_HD bool allows(TokenId id) const {
    return allowed == nullptr || (allowed[id / 32] >> static_cast<unsigned>(id % 32) & 1u) != 0;
  }
};

}  // namespace bass
