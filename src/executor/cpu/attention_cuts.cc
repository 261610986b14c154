// How units of attention that threads would wait for are cut into runs of chunks.
#include <algorithm>

#include "executor/cpu/attention_plan.h"

namespace bass::cpu {
namespace {

// A unit of more than a quarter of a thread's share of the work may be cut into runs of about so much, of at least
// kMinRunChunks chunks; several sequences' shared chunks, which are more work each, into shorter ones.
constexpr int kRunsPerThread = 4;
// So few threads wait long for the one that has a run more: a unit has a multiple of their number.
constexpr int kFewThreads = 8;
constexpr int kMinRunChunks = 8;
constexpr int kMinSharedRunChunks = 4;
// No thread may have more than its share and one part in so many.
constexpr int kEvenShare = 8;
// Leaving a chunk's state of a row and merging it costs what the arithmetic of 1 / so many rows costs (AMD Zen 4, heads
// of 64: 17 ns and 35 ns), and threads must have waited for so many times as much.
constexpr int kStatesPerRowCost = 2;
constexpr int kLeastGain = 2;
// For states of all the runs of a batch, touched as far as they are used; units that would need more stay whole, and
// keep one thread busy each. With heads of 128 enough for a sequence of 128k tokens and 64 heads, one of 32k that
// verifies seven drafted tokens, or 32 samples of a prompt of 8k.
constexpr ptrdiff_t kRunStateBytes = ptrdiff_t{256} << 20;

ptrdiff_t max_run_states(const KvShape& shape) {
  const ptrdiff_t state_bytes = static_cast<ptrdiff_t>(attention_state_len(shape.head_dim) * sizeof(float));
  return kRunStateBytes / state_bytes;
}

// Of n_chunks in n_runs, those in front of the end of run i.
int run_end(int n_chunks, int n_runs, int i) { return static_cast<int>(int64_t{n_chunks} * (i + 1) / n_runs); }

}  // namespace

size_t AttentionPlan::max_states(size_t n_rows, const KvShape& shape) {
  return n_rows * static_cast<size_t>(shape.n_heads) + static_cast<size_t>(max_run_states(shape));
}

// Cut units have as many runs as targets of work go into them, and what rounding up adds to each; the shortest of a KV
// head's shared units, which have as many as its longest, are half as much work.
size_t AttentionPlan::max_added_runs(int n_threads) {
  const int n_rounded = n_threads < kFewThreads ? n_threads : 1;
  return 2 * static_cast<size_t>(n_threads * kRunsPerThread * (1 + n_rounded));
}

// What the busiest thread has to do if each takes the costliest unit left, which shares with stealing come near to.
// Units are sorted by cost.
int64_t AttentionPlan::makespan() {
  std::fill(loads_.begin(), loads_.end(), 0);
  for (const PlannedUnit& unit : early.units) *std::min_element(loads_.begin(), loads_.end()) += cost(unit);
  return *std::max_element(loads_.begin(), loads_.end());
}

// Units go to the threads as a whole as long as none gets more than its share by that; the runs of the others fill up
// what is left.
void AttentionPlan::cut_long_units() {
  const int64_t total = total_cost(early.units);
  const auto is_long = [&](const PlannedUnit& unit) { return cost(unit) * n_threads_ * kRunsPerThread > total; };
  if (std::none_of(early.units.begin(), early.units.end(), is_long)) return;
  std::sort(early.units.begin(), early.units.end(),
            [this](const PlannedUnit& a, const PlannedUnit& b) { return cost(a) > cost(b); });
  // Runs cost a second stage: whole units are better where the threads are busy anyway.
  idle_cost_ = makespan() * n_threads_ - total;
  if (idle_cost_ * kEvenShare <= total) return;
  std::fill(loads_.begin(), loads_.end(), 0);
  const size_t n_whole = early.units.size();
  for (size_t i = 0; i < n_whole; ++i) {
    const PlannedUnit& unit = early.units[i];
    if (unit.chunk_stride != 0) continue;  // cut with another one of its group
    int64_t& load = *std::min_element(loads_.begin(), loads_.end());
    const bool fits = (load + cost(unit)) * n_threads_ * kEvenShare <= total * (kEvenShare + 1);
    const int n_runs = !fits && is_long(unit) ? n_runs_of(unit, total) : 1;
    if (n_runs == 1 || !cut(i, n_whole, n_runs)) load += cost(unit);
  }
}

int AttentionPlan::n_runs_of(const PlannedUnit& unit, int64_t total) const {
  const int64_t target = std::max<int64_t>(1, total / (n_threads_ * kRunsPerThread));
  const int min_chunks = unit.group == PlannedUnit::kNoGroup ? kMinRunChunks : kMinSharedRunChunks;
  int64_t n_wanted = (cost(unit) + target - 1) / target;
  if (n_threads_ < kFewThreads) n_wanted = (n_wanted + n_threads_ - 1) / n_threads_ * n_threads_;
  return static_cast<int>(std::clamp<int64_t>((unit.end_chunk - unit.first_chunk) / min_chunks, 1, n_wanted));
}

// Places for the states of n_rest chunks: kNoState where there is no room, or where the threads would gain too little.
ptrdiff_t AttentionPlan::take_states(int n_rest, ptrdiff_t chunk_stride) {
  const ptrdiff_t begin = n_states_;
  const ptrdiff_t n = n_rest * chunk_stride;
  const int64_t added_cost = n / kStatesPerRowCost;
  if (begin + n > max_run_states(shape_) || added_cost * kLeastGain >= idle_cost_) return PlannedUnit::kNoState;
  idle_cost_ -= added_cost;
  n_states_ += n;
  return begin;
}

// The first run leaves its running softmax, the others leave their chunks' own, which are merged one by one behind it:
// the same chain as in one unit.
bool AttentionPlan::cut(size_t unit_idx, size_t n_whole, int n_runs) {
  const PlannedUnit unit = early.units[unit_idx];
  const int n_chunks = unit.end_chunk - unit.first_chunk;
  const int n_rest = n_chunks - run_end(n_chunks, n_runs, 0);
  if (unit.group != PlannedUnit::kNoGroup) return cut_shared(unit, n_whole, n_runs, n_rest);
  const int group_size = shape_.group_size();
  const ptrdiff_t unit_states = static_cast<ptrdiff_t>(unit.n_tokens) * group_size;
  const ptrdiff_t first = take_states(1 + n_rest, unit_states);
  if (first == PlannedUnit::kNoState) return false;
  const ptrdiff_t rest = first + unit_states;
  for (int t = 0; t < unit.n_tokens; ++t) {  // each on its own, so that many threads share in them
    const ptrdiff_t state = static_cast<ptrdiff_t>(t) * group_size;
    finishes.push_back(
        {unit.kv_head, unit.rows_begin + static_cast<size_t>(t), first + state, rest + state, n_rest, unit_states});
  }
  early.units[unit_idx].state = first;
  add_runs(unit_idx, n_runs, rest, unit_states);
  return true;
}

// The members' units go on from these states and merge the chunks' own into them first. A member's unit may begin in
// one shared unit and end in the next, so all of a KV head are cut alike, and chunks' states lie as those of all of
// them together do: [chunks, tokens of all members, group_size].
bool AttentionPlan::cut_shared(const PlannedUnit& unit, size_t n_whole, int n_runs, int n_rest) {
  const SharedStates& group = groups_[static_cast<size_t>(unit.group)];
  const ptrdiff_t rest = take_states(n_rest, group.head_states);
  if (rest == PlannedUnit::kNoState) return false;
  const int n = unit.group;
  const int kv_head = unit.kv_head;
  const ptrdiff_t head_begin = group.begin + kv_head * group.head_states;
  for (size_t i = 0; i < n_whole; ++i) {
    const PlannedUnit& shared = early.units[i];
    if (shared.group == n && shared.kv_head == kv_head)
      add_runs(i, n_runs, rest + (shared.state - head_begin), group.head_states);
  }
  for (PlannedUnit& own : late.units) {
    if (own.group != n || own.kv_head != kv_head) continue;
    own.rest = rest + (own.before - head_begin);
    own.n_rest = n_rest;
    own.chunk_stride = group.head_states;
  }
  return true;
}

void AttentionPlan::add_runs(size_t unit_idx, int n_runs, ptrdiff_t rest, ptrdiff_t chunk_stride) {
  PlannedUnit run = early.units[unit_idx];
  const int begin = run.first_chunk;
  const int n_chunks = run.end_chunk - begin;
  const int rest_begin = begin + run_end(n_chunks, n_runs, 0);
  early.units[unit_idx].end_chunk = rest_begin;
  early.units[unit_idx].chunk_stride = chunk_stride;
  run.state = PlannedUnit::kNoState;
  run.chunk_stride = chunk_stride;
  for (int i = 1; i < n_runs; ++i) {
    run.first_chunk = begin + run_end(n_chunks, n_runs, i - 1);
    run.end_chunk = begin + run_end(n_chunks, n_runs, i);
    run.chunk_states = rest + (run.first_chunk - rest_begin) * chunk_stride;
    early.units.push_back(run);
  }
}

}  // namespace bass::cpu
