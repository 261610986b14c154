// What the sampling kernels are told and what they answer: plain rows in device memory. Arrays that a row points to are
// in device memory too.
#pragma once

#include "kernels/sampling/block.h"

namespace bass::cuda {

/// The longest draft of a round.
inline constexpr int kMaxRoundDrafts = 32;
/// In the place of a drafted token, where a grammar allows none that the draft model can propose.
inline constexpr TokenId kNoDraft = -1;

/// A sequence's round.
struct SequenceTask {
  SamplingParams params;
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;
  uint32_t round_start = 0;    // position of the first drafted token
  TokenId* drafted = nullptr;  // [kMaxRoundDrafts]
  uint16_t* stored = nullptr;  // [kMaxRoundDrafts, stored_stride] distributions of the drafted tokens, or null: one-hot
  int64_t stored_stride = 0;
  ProposableTokens tokens;     // that the draft model can propose
  int32_t n_draft_tokens = 0;  // or, if that is all: these, of the lowest ids

  /// allowed: TokenHistory's, in device memory
  [[nodiscard]] BASS_HD TokenHistory history(int n_drafts, const uint32_t* allowed) const {
    return {prompt, output, {drafted, static_cast<size_t>(n_drafts)}, allowed};
  }
  [[nodiscard]] BASS_HD RoundPosition position(int idx) const {
    return {round_start + static_cast<uint32_t>(idx), round_start};
  }
  [[nodiscard]] BASS_HD int n_draft_entries() const {
    return tokens.is_all() ? n_draft_tokens : static_cast<int>(tokens.ids.size());
  }
  [[nodiscard]] BASS_HD uint16_t* stored_row(int idx) const { return stored + idx * stored_stride; }
};

/// A row of the draft model that a token is drafted from.
struct DraftTask {
  int32_t sequence = 0;               // index of its SequenceTask
  const uint32_t* allowed = nullptr;  // TokenHistory::allowed
};

/// One of the most probable tokens of a row (TopLogprob of the public API).
struct TopToken {
  TokenId id = -1;  // -1: there are no more
  float logprob = 0;
};

/// kTop: nothing but its most probable tokens is wanted.
enum class RowKind : int32_t { kDecode, kTarget, kTop };

/// A row of the main model whose logits are wanted.
struct RowTask {
  int32_t sequence = 0;  // index of its SequenceTask
  int32_t idx = 0;       // kDecode: tokens drafted in front of it
  RowKind kind = RowKind::kDecode;
  TokenId target = 0;                 // kTarget: whose log-probability is wanted
  bool is_extra = false;              // kDecode: behind the last drafted token
  const uint32_t* allowed = nullptr;  // kDecode: TokenHistory::allowed
  int32_t n_top = 0;
  TopToken* top = nullptr;  // [n_top] where its most probable tokens go; not those of a row behind a round's end
};

/// What came of it.
struct RowOutcome {
  RowVerdict verdict;  // kTarget: its token is the row's most probable one, its logprob the target's
  float chance = 0;    // acceptance_chance, where the rule has one
  double p_x = 0;      // of the drafted token, under `block`
  double q_x = 1;
  double mass = 0;    // residual mass, where judging its round needs it
  RowDistribution p;  // under `block`: their z are in the row's scratch
  RowDistribution q;
};

/// What a round under `block` knows between its rows, and the token behind the last accepted one.
struct JudgedRound {
  BlockRound round;
  RowVerdict stop;
};

/// Rows of one round that lie in one block of logits.
struct RoundTask {
  int32_t sequence = 0;
  int32_t first_row = 0;  // of the block of logits
  int32_t n_rows = 0;
};

}  // namespace bass::cuda
