// Drafting from and verifying rows of logits on the device, by the CPU executor's rules and with its bits: a block a
// row.
//
//   DraftRows    logits of a draft model -> drafted tokens and stored distributions
//   VerifyRows   logits of the main model -> an outcome a row; rounds under `block` are only looked at
//   WeighRows    what their judging may ask of a row, all rows at once
//   JudgeRounds  those rounds, in order, a block a sequence
//
// Nothing here waits for the host: drafted tokens are read where DraftRows wrote them.
#pragma once

#include "kernels/cuda/sampling/verify_row.h"

namespace bass::cuda {

/// A block of rows of logits, and memory for them.
struct LogitsBlock {
  const float* logits = nullptr;  // [n_rows, stride]
  int64_t stride = 0;
  int32_t n_rows = 0;
  int32_t n_tokens = 0;      // of a row of the main model that exist
  float* scratch = nullptr;  // [n_rows, 3, scratch_len]
  uint64_t* keys = nullptr;  // [n_rows, scratch_len]
  int64_t scratch_len = 0;   // at least the longest row

  [[nodiscard]] BASS_HD const float* row(int i) const { return logits + i * stride; }
  [[nodiscard]] BASS_HD RowScratch scratch_of(int i) const {
    float* first = scratch + i * 3 * scratch_len;
    return {first, first + scratch_len, first + 2 * scratch_len, keys + i * scratch_len};
  }
};

inline LaunchShape row_shape(int n_blocks) {
  return {{n_blocks, 1, 1}, kRowBlockThreads, BlockSampler<NoContext>::shared_bytes()};
}

/// Drafts the token draft_idx of each row's sequence, or kNoDraft. Grid: rows.
struct DraftRows {
  static constexpr const char* kName = "draft_rows";
  static constexpr int kMaxThreads = kRowBlockThreads;
  static constexpr bool kCooperates = true;

  LogitsBlock block;          // of the draft model's
  const SequenceTask* tasks;  // [n_sequences]
  const DraftTask* rows;      // [n_rows]
  int32_t draft_idx;

  [[nodiscard]] LaunchShape shape() const { return row_shape(block.n_rows); }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().x;
    const SequenceTask& task = tasks[rows[i].sequence];
    BlockSampler<Context> sampler(context, block.scratch_of(i));
    const TokenHistory history = task.history(draft_idx, rows[i].allowed);
    RowDistribution q = sampler.build(block.row(i), task.n_draft_entries(), task.params, history, {}, task.tokens);
    if (q.is_degenerate && history.allowed != nullptr) {
      if (context.thread() == 0) task.drafted[draft_idx] = kNoDraft;
      return;
    }
    if (task.stored != nullptr) q = sampler.store_draft_row(q, task.stored_row(draft_idx));
    const TokenId token = sampler.sample(q, draft_stream(task.params, task.position(draft_idx)));
    if (context.thread() == 0) task.drafted[draft_idx] = token;
  }
};

/// Grid: rows.
struct VerifyRows {
  static constexpr const char* kName = "verify_rows";
  static constexpr int kMaxThreads = kRowBlockThreads;
  static constexpr bool kCooperates = true;

  LogitsBlock block;
  const SequenceTask* tasks;  // [n_sequences]
  const RowTask* rows;        // [n_rows]
  RowOutcome* outcomes;       // [n_rows]
  int32_t* last_rows;         // [n_sequences] behind it no row of the round counts; INT32_MAX at first. Null: all do

  [[nodiscard]] LaunchShape shape() const { return row_shape(block.n_rows); }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().x;
    const RowTask& row = rows[i];
    BlockSampler<Context> sampler(context, block.scratch_of(i));
    if (context.thread() == 0) outcomes[i] = {};
    context.sync();
    if (row.kind == RowKind::kDecode) {
      if (is_behind_end(context, sampler, row)) return;
      decode(context, sampler, i);
      if (row.n_top == 0) return;
    }
    const cpu::RowStats stats = row_stats(sampler.block(), block.row(i), block.n_tokens);
    if (row.kind != RowKind::kDecode && context.thread() == 0) score(i, stats);
    if (row.n_top > 0) find_top(sampler.block(), block.row(i), block.n_tokens, stats.log_sum_exp, row.n_top, row.top);
  }

 private:
  template <class Context>
  BASS_HD bool is_behind_end(Context& context, BlockSampler<Context>& sampler, const RowTask& row) const {
    // Other blocks may lower it meanwhile: all threads go by what the first one has read.
    const bool reads_last = last_rows != nullptr && context.thread() == 0;
    const int32_t last = reads_last ? context.atomic_min(&last_rows[row.sequence], INT32_MAX) : INT32_MAX;
    return row.idx > sampler.block().least(last);
  }

  template <class Context>
  BASS_HD void decode(Context& context, BlockSampler<Context>& sampler, int i) const {
    const RowTask& row = rows[i];
    const SequenceTask& task = tasks[row.sequence];
    const bool is_block = is_judged_as_block(task.params);
    if (is_block && row.is_extra) return;  // looked at if it is drawn from
    const VerifiedRow loaded = load_row(sampler, task, row, block.row(i), block.n_tokens);
    float chance = 0;
    if (!row.is_extra && normalise_for_verification(task.params) == Normalise::kYes) {
      chance = static_cast<float>(acceptance_chance(sampler, loaded));
    }
    RowVerdict verdict;
    if (is_block) {
      verdict = emit_token(loaded, loaded.drafted, true);
    } else {
      verdict = verify_row(sampler, loaded, task.params, task.position(row.idx), row.is_extra);
    }
    if (context.thread() != 0) return;
    RowOutcome& out = outcomes[i];
    out.verdict = verdict;
    out.chance = chance;
    bool ends_round = !verdict.accepted;
    if (is_block) {
      out.p_x = row_probability_of(loaded.p, loaded.drafted);
      out.q_x = drafted_probability(loaded, loaded.drafted);
      out.p = loaded.p;
      out.q = loaded.q;
      ends_round = out.p_x == 0;
    }
    if (ends_round && !row.is_extra && last_rows != nullptr) context.atomic_min(&last_rows[row.sequence], row.idx);
  }

  BASS_HD void score(int i, const cpu::RowStats& stats) const {
    RowVerdict& verdict = outcomes[i].verdict;
    verdict = {false, stats.argmax, 0.0f, !is_finite(stats.log_sum_exp)};
    if (rows[i].kind == RowKind::kTarget) verdict.logprob = block.row(i)[rows[i].target] - stats.log_sum_exp;
  }
};

/// The residual masses that rounds under `block` need: p_i of a row (block.h) depends on what its round drafted, but on
/// no mass. Grid: rows.
struct WeighRows {
  static constexpr const char* kName = "weigh_rows";
  static constexpr int kMaxThreads = kRowBlockThreads;
  static constexpr bool kCooperates = true;

  LogitsBlock block;
  const SequenceTask* tasks;  // [n_sequences]
  const RowTask* rows;        // [n_rows]
  RowOutcome* outcomes;       // [n_rows]
  const JudgedRound* judged;  // [n_sequences] up to the block of logits in front

  [[nodiscard]] LaunchShape shape() const { return row_shape(block.n_rows); }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().x;
    const RowTask& row = rows[i];
    if (row.kind != RowKind::kDecode) return;
    const SequenceTask& task = tasks[row.sequence];
    if (!is_judged_as_block(task.params) || row.is_extra) return;
    BlockRound round;
    round.joint = joint_of(i);
    if (!needs_residual_mass(task.params, task.position(row.idx), round)) return;
    BlockSampler<Context> sampler(context, block.scratch_of(i));
    const double mass = residual_mass(sampler, looked_at(task, row, outcomes[i], block.row(i)), round.joint);
    if (context.thread() == 0) outcomes[i].mass = mass;
  }

 private:
  /// p_i, from the rows of its round in front of it.
  [[nodiscard]] BASS_HD double joint_of(int i) const {
    int first = i;
    while (first > 0 && rows[first].idx > 0) --first;
    double joint = rows[first].idx > 0 ? judged[rows[i].sequence].round.joint : 1;
    for (int k = first; k < i; ++k) joint = next_joint(joint, outcomes[k].p_x, outcomes[k].q_x);
    return joint;
  }
};

/// Judges the rows of rounds under `block`, which are weighed, and draws behind the last accepted token. Grid: rounds.
struct JudgeRounds {
  static constexpr const char* kName = "judge_rounds";
  static constexpr int kMaxThreads = kRowBlockThreads;
  static constexpr bool kCooperates = true;

  LogitsBlock block;
  const SequenceTask* tasks;  // [n_sequences]
  const RowTask* rows;        // [n_rows]
  RowOutcome* outcomes;       // [n_rows]
  const RoundTask* rounds;    // [n_rounds]
  JudgedRound* judged;        // [n_sequences]; a round's first row begins it
  int32_t n_rounds;

  [[nodiscard]] LaunchShape shape() const { return row_shape(n_rounds); }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const RoundTask& task = rounds[context.block().x];
    const SequenceTask& sequence = tasks[task.sequence];
    JudgedRound& result = judged[task.sequence];
    BlockSampler<Context> sampler(context, block.scratch_of(task.first_row));
    const int first_idx = rows[task.first_row].idx;
    BlockRound round = first_idx == 0 ? BlockRound{} : result.round;
    context.sync();  // all have read what the first thread will write
    for (int i = 0; i < task.n_rows && !round.is_over(); ++i) judge(sequence, task.first_row + i, &round);
    // If no row of a later block of logits is accepted, it ends here. An earlier one may have drawn the token already.
    const int stop = round.n_accepted - first_idx;
    RowVerdict verdict;
    if (stop >= 0) verdict = draw(sampler, sequence, task.first_row + stop, round);
    if (context.thread() != 0) return;
    result.round = round;
    if (stop >= 0) result.stop = verdict;
  }

 private:
  BASS_HD void judge(const SequenceTask& sequence, int i, BlockRound* round) const {
    const RoundPosition at = sequence.position(rows[i].idx);
    if (rows[i].is_extra) return judge_last_block_row(sequence.params, at, round);
    const RowOutcome& row = outcomes[i];
    judge_block_row({row.p_x, row.q_x, row.verdict}, sequence.params, at, row.mass, round);
  }

  template <class Context>
  BASS_HD RowVerdict draw(BlockSampler<Context>& sampler, const SequenceTask& sequence, int i,
                          const BlockRound& round) const {
    const RowTask& task = rows[i];
    sampler.use(block.scratch_of(i));
    const VerifiedRow row = task.is_extra ? load_row(sampler, sequence, task, block.row(i), block.n_tokens)
                                          : looked_at(sequence, task, outcomes[i], block.row(i));
    const RoundPosition at = sequence.position(task.idx);
    RowDraw draw{sample_stream(sequence.params, at.position)};
    if (!task.is_extra) draw = {residual_stream(sequence.params, at), true, round.accepted_joint};
    return emit_token(row, draw_token(sampler, row, draw), false);
  }
};

}  // namespace bass::cuda
