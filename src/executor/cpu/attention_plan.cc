#include "executor/cpu/attention_plan.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

namespace bass::cpu {
namespace {

// Tokens of a prompt chunk in one unit: enough rows to share each load of K and V, few enough to balance threads.
constexpr int kPrefillUnitTokens = 16;
// Units of shared chunks have at least so many rows, if there are as many: reading K and V pays for them together.
constexpr int kMinSharedRows = 32;
// Reading a chunk costs about what the arithmetic of so many rows costs. Only balance depends on it.
constexpr int kReadCost = 16;
// Of what decoding sequences have in the pages, a thread fetches so much before attention: about a core's caches.
constexpr size_t kMaxFetchedBytes = size_t{2} << 20;

int n_chunks_of(int n_positions) { return (n_positions + kKvPageLen - 1) / kKvPageLen; }

// Pages that are full, and so may be other segments' too.
std::span<const PageId> whole_pages(const ForwardSegment& segment) {
  return segment.pages.first(static_cast<size_t>(segment.start / kKvPageLen));
}

// Whole pages that both begin with.
int count_shared_chunks(const ForwardSegment& a, const ForwardSegment& b) {
  const std::span<const PageId> pages = whole_pages(a);
  return static_cast<int>(std::ranges::mismatch(pages, whole_pages(b)).in1 - pages.begin());
}

// Any order in which those that begin alike are neighbours, the more the longer they do.
bool is_in_front(std::span<const PageId> a, std::span<const PageId> b) {
  const int order = std::memcmp(a.data(), b.data(), std::min(a.size_bytes(), b.size_bytes()));
  return order != 0 ? order < 0 : a.size() < b.size();
}

}  // namespace

AttentionPlan::AttentionPlan(const KvShape& shape, int n_threads, int window)
    : shape_(shape),
      n_threads_(n_threads),
      window_(window),
      loads_(static_cast<size_t>(n_threads)),
      n_cached_heads_(static_cast<size_t>(n_threads)),
      max_cached_heads_(static_cast<int>(kMaxFetchedBytes / shape.head_bytes())) {
  for (Stage* stage : {&early, &late}) stage->bounds.resize(static_cast<size_t>(n_threads) + 1);
  cached_heads_.resize(static_cast<size_t>(n_threads) * static_cast<size_t>(max_cached_heads_));
}

void AttentionPlan::reserve(size_t n_rows, size_t n_segments, size_t max_chunks) {
  const auto n_kv_heads = static_cast<size_t>(shape_.n_kv_heads);
  early.units.reserve((n_rows + n_segments) * n_kv_heads + max_added_runs(n_threads_));
  late.units.reserve(n_rows * n_kv_heads);
  finishes.reserve(n_rows * n_kv_heads);
  groups_.reserve(n_segments);
  alike_.reserve(n_segments);
  open_.reserve(n_segments + 1);
  rows.reserve(2 * n_rows);
  page_pointers.reserve(n_segments * max_chunks);
  order_.reserve(n_segments);
  segment_pages_.reserve(n_segments);
}

void AttentionPlan::build(AttentionKind kind, std::span<const ForwardSegment> segments, const std::byte* page_base,
                          size_t page_bytes) {
  early.units.clear();
  late.units.clear();
  finishes.clear();
  rows.clear();
  page_pointers.clear();
  segment_pages_.clear();
  groups_.clear();
  n_states_ = 0;
  int padded_tokens = 0;
  int padded_chunks = 0;
  for (const ForwardSegment& segment : segments) {
    if (kind != AttentionKind::kPad || !segment.is_decode) continue;
    padded_tokens = std::max(padded_tokens, segment.n_tokens);
    padded_chunks = std::max(padded_chunks, n_chunks_of(segment.start + segment.n_tokens));
  }
  for (const ForwardSegment& segment : segments) {
    const bool is_padded = kind == AttentionKind::kPad && segment.is_decode;
    const size_t pages_begin = page_pointers.size();
    segment_pages_.push_back(pages_begin);
    add_pages(segment, is_padded ? padded_chunks : n_chunks_of(segment.start + segment.n_tokens), page_base,
              page_bytes);
    if (is_padded) {
      add_padded(segment, pages_begin, padded_tokens, padded_chunks);
    } else if (kind != AttentionKind::kFused || !segment.is_decode) {
      add_segment(segment, pages_begin);
    }
  }
  if (kind == AttentionKind::kFused) add_fused(segments);
  for (Stage* stage : {&early, &late}) share_out(stage);
  collect_cached_heads();
}

void AttentionPlan::add_pages(const ForwardSegment& segment, int n_chunks, const std::byte* page_base,
                              size_t page_bytes) {
  const int n_own_chunks = n_chunks_of(segment.start + segment.n_tokens);
  for (int i = 0; i < n_chunks; ++i) {  // padding chunks read the sequence's first page
    const PageId page = segment.pages[static_cast<size_t>(i < n_own_chunks ? i : 0)];
    page_pointers.push_back(page_base + static_cast<size_t>(page) * page_bytes);
  }
}

size_t AttentionPlan::add_rows(const ForwardSegment& segment) {
  const size_t begin = rows.size();
  for (int i = 0; i < segment.n_tokens; ++i) rows.push_back(segment.row_begin + i);
  return begin;
}

// The states of a KV head lie head_states behind those of the KV head in front of it.
void AttentionPlan::add_for_heads(PlannedUnit unit, ptrdiff_t head_states, std::vector<PlannedUnit>* stage) const {
  for (unit.kv_head = 0; unit.kv_head < shape_.n_kv_heads; ++unit.kv_head) {
    stage->push_back(unit);
    if (unit.before != PlannedUnit::kNoState) unit.before += head_states;
    if (unit.state != PlannedUnit::kNoState) unit.state += head_states;
  }
}

int AttentionPlan::max_unit_tokens() const { return std::max(1, kMaxAttentionRows / shape_.group_size()); }

void AttentionPlan::add_segment(const ForwardSegment& segment, size_t pages_begin) {
  const size_t rows_begin = add_rows(segment);
  const int step = segment.is_decode ? max_unit_tokens() : std::min(max_unit_tokens(), kPrefillUnitTokens);
  for (int token = 0; token < segment.n_tokens; token += step) {
    PlannedUnit unit;
    unit.is_prompt = !segment.is_decode;
    unit.rows_begin = rows_begin + static_cast<size_t>(token);
    unit.n_tokens = std::min(step, segment.n_tokens - token);
    unit.first_chunk = first_chunk(segment.start + token);
    unit.end_chunk = n_chunks_of(segment.start + token + unit.n_tokens);
    unit.pages_begin = pages_begin;
    add_for_heads(unit, 0, &early.units);
  }
}

void AttentionPlan::add_padded(const ForwardSegment& segment, size_t pages_begin, int n_padded_tokens, int n_chunks) {
  const size_t rows_begin = add_rows(segment);
  const int step = max_unit_tokens();
  for (int token = 0; token < n_padded_tokens; token += step) {
    PlannedUnit unit;
    unit.rows_begin = rows_begin + static_cast<size_t>(std::min(token, segment.n_tokens));
    unit.n_tokens = std::clamp(segment.n_tokens - token, 0, step);
    unit.n_padding_tokens = std::min(step, n_padded_tokens - token) - unit.n_tokens;
    unit.padding_row = segment.row_begin + segment.n_tokens - 1;
    unit.first_chunk = first_chunk(segment.start + std::min(token, segment.n_tokens - 1));
    unit.end_chunk = n_chunks;
    unit.pages_begin = pages_begin;
    add_for_heads(unit, 0, &early.units);
  }
}

void AttentionPlan::add_fused(std::span<const ForwardSegment> segments) {
  order_.clear();
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].is_decode) order_.push_back(static_cast<int>(i));
  }
  const auto segment = [&](int i) -> const ForwardSegment& { return segments[static_cast<size_t>(i)]; };
  std::sort(order_.begin(), order_.end(), [&](int a, int b) {
    if (is_in_front(whole_pages(segment(a)), whole_pages(segment(b)))) return true;
    return !is_in_front(whole_pages(segment(b)), whole_pages(segment(a))) && a < b;
  });
  divide(segments);
  size_t next = 0;
  const auto add_alone = [&](size_t end) {
    for (; next < end; ++next) add_segment(segment(order_[next]), segment_pages_[static_cast<size_t>(order_[next])]);
  };
  for (const Alike& run : alike_) {
    add_alone(run.begin);
    add_group(segments, Group(order_).subspan(run.begin, run.end - run.begin), first_chunk(run.min_start),
              run.n_shared);
    next = run.end;
  }
  add_alone(order_.size());
  cut_long_units();
}

// A chunk can be read for one group only: texts that begin alike are one, or those of them are that do so for longer,
// whatever saves most reads. Runs of the sorted segments whose members share ever more lie in one another (the
// intervals of their common beginnings); each is closed behind those in it.
void AttentionPlan::divide(std::span<const ForwardSegment> segments) {
  alike_.clear();
  open_.clear();
  for (size_t i = 0; i < order_.size(); ++i) {
    const ForwardSegment& segment = segments[static_cast<size_t>(order_[i])];
    const int n_shared =  // with the next one
        i + 1 < order_.size() ? count_shared_chunks(segment, segments[static_cast<size_t>(order_[i + 1])]) : 0;
    add_to_run({i, 0, n_shared, segment.start, segment.start + segment.n_tokens, 0});
    while (open_.back().n_shared > n_shared) {
      Alike run = open_.back();
      open_.pop_back();
      run.end = i + 1;
      close(segments, &run);
      run.n_shared = n_shared;
      add_to_run(run);
    }
  }
}

// Begins a run, or goes on with the last one that is open, if that shares as much.
void AttentionPlan::add_to_run(const Alike& run) {
  if (open_.empty() || open_.back().n_shared < run.n_shared) return open_.push_back(run);
  open_.back().min_start = std::min(open_.back().min_start, run.min_start);
  open_.back().max_end = std::max(open_.back().max_end, run.max_end);
  open_.back().n_saved += run.n_saved;
}

// Takes it whole where that saves as much as what was taken of it. Members' own chunks are not cut for threads that
// would wait, so a short beginning is not shared at the price of a long rest.
void AttentionPlan::close(std::span<const ForwardSegment> segments, Alike* run) {
  const int n_read = run->n_shared - first_chunk(run->min_start);
  int64_t n_saved = (static_cast<int64_t>(run->end - run->begin) - 1) * n_read;
  if (window_ > 0) {  // later members see less of it
    n_saved = -n_read;
    for (size_t i = run->begin; i < run->end; ++i) {
      const int start = segments[static_cast<size_t>(order_[i])].start;
      n_saved += std::max(0, run->n_shared - first_chunk(start));
    }
  }
  const int64_t n_own = n_chunks_of(run->max_end) - run->n_shared;
  if (n_read <= 0 || n_saved < run->n_saved || n_saved * shape_.n_kv_heads < n_own * (n_threads_ - 1)) return;
  run->n_saved = n_saved;
  while (!alike_.empty() && alike_.back().begin >= run->begin) alike_.pop_back();
  alike_.push_back(*run);
}

// The shared chunks for the tokens of all members together, then each member's own chunks from the states that this
// leaves: [n_kv_heads, tokens of all members, group_size].
void AttentionPlan::add_group(std::span<const ForwardSegment> segments, Group group, int first_shared, int n_shared) {
  const int group_size = shape_.group_size();
  const ptrdiff_t states_begin = n_states_;
  const size_t rows_begin = rows.size();
  for (const int i : group) add_rows(segments[static_cast<size_t>(i)]);
  const auto n_tokens = static_cast<int>(rows.size() - rows_begin);
  const ptrdiff_t head_states = static_cast<ptrdiff_t>(n_tokens) * group_size;
  n_states_ += shape_.n_kv_heads * head_states;
  const auto group_idx = static_cast<int>(groups_.size());
  groups_.push_back({states_begin, head_states});

  const int n_wanted = (2 * n_threads_ + shape_.n_kv_heads - 1) / shape_.n_kv_heads;  // so that every thread has some
  const int n_worthwhile = std::max(1, n_tokens * group_size / kMinSharedRows);
  const int n_needed = (n_tokens + max_unit_tokens() - 1) / max_unit_tokens();
  const int n_units = std::max(n_needed, std::min({n_wanted, n_worthwhile, n_tokens}));
  for (int i = 0; i < n_units; ++i) {
    const int token = static_cast<int>(int64_t{n_tokens} * i / n_units);
    PlannedUnit unit;
    unit.rows_begin = rows_begin + static_cast<size_t>(token);
    unit.n_tokens = static_cast<int>(int64_t{n_tokens} * (i + 1) / n_units) - token;
    unit.first_chunk = first_shared;
    unit.end_chunk = n_shared;
    unit.pages_begin = segment_pages_[static_cast<size_t>(group.front())];
    unit.state = states_begin + static_cast<ptrdiff_t>(token) * group_size;
    unit.group = group_idx;
    add_for_heads(unit, head_states, &early.units);
  }
  int member_token = 0;  // of the group's
  for (const int i : group) {
    const ForwardSegment& segment = segments[static_cast<size_t>(i)];
    for (int token = 0; token < segment.n_tokens; token += max_unit_tokens()) {
      PlannedUnit unit;
      unit.rows_begin = rows_begin + static_cast<size_t>(member_token + token);
      unit.n_tokens = std::min(max_unit_tokens(), segment.n_tokens - token);
      unit.first_chunk = std::max(n_shared, first_chunk(segment.start + token));
      unit.end_chunk = n_chunks_of(segment.start + token + unit.n_tokens);
      unit.pages_begin = segment_pages_[static_cast<size_t>(i)];
      unit.before = states_begin + static_cast<ptrdiff_t>(member_token + token) * group_size;
      unit.group = group_idx;
      add_for_heads(unit, head_states, &late.units);
    }
    member_token += segment.n_tokens;
  }
}

int64_t AttentionPlan::cost(const PlannedUnit& unit) const {
  return int64_t{unit.end_chunk - unit.first_chunk} *
         (kReadCost + (unit.n_tokens + unit.n_padding_tokens) * shape_.group_size());
}

int64_t AttentionPlan::total_cost(const std::vector<PlannedUnit>& units) const {
  int64_t total = 0;
  for (const PlannedUnit& unit : units) total += cost(unit);
  return total;
}

void AttentionPlan::share_out(Stage* stage) const {
  std::vector<PlannedUnit>& units = stage->units;
  const auto place = [](const PlannedUnit& unit) {  // neighbours in memory are neighbours in time
    return std::tuple(unit.pages_begin, unit.kv_head, unit.first_chunk, unit.rows_begin);
  };
  std::sort(units.begin(), units.end(),
            [&](const PlannedUnit& a, const PlannedUnit& b) { return place(a) < place(b); });
  const int64_t total = total_cost(units);
  int64_t before = 0;
  std::fill(stage->bounds.begin(), stage->bounds.end(), 0);
  for (PlannedUnit& unit : units) {  // to the thread in whose share its middle is
    unit.thread = static_cast<int>((2 * before + cost(unit)) * n_threads_ / (2 * total));
    before += cost(unit);
    ++stage->bounds[static_cast<size_t>(unit.thread) + 1];
  }
  std::partial_sum(stage->bounds.begin(), stage->bounds.end(), stage->bounds.begin());
  for (int thread = 0; thread < n_threads_; ++thread) {
    const WorkRange share = stage->share(thread);
    std::sort(units.begin() + share.begin, units.begin() + share.end, [&](const PlannedUnit& a, const PlannedUnit& b) {
      return std::pair(-cost(a), place(a)) < std::pair(-cost(b), place(b));
    });
  }
}

// What decoding sequences have cached, which no other than they has read since their last step. A prompt's chunk finds
// what it reads in the caches, where the chunk before has left it, and reads it for many tokens.
void AttentionPlan::collect_cached_heads() {
  std::fill(n_cached_heads_.begin(), n_cached_heads_.end(), 0);
  for (const Stage* stage : {&early, &late}) {
    for (const PlannedUnit& unit : stage->units) {
      if (unit.is_prompt) continue;
      const auto thread = static_cast<size_t>(unit.thread);
      const std::byte** heads = cached_heads_.data() + thread * static_cast<size_t>(max_cached_heads_);
      int& n = n_cached_heads_[thread];
      for (int c = unit.first_chunk; c < unit.end_chunk && n < max_cached_heads_; ++c) {
        const std::byte* head = page_pointers[unit.pages_begin + static_cast<size_t>(c)] +
                                static_cast<size_t>(unit.kv_head) * shape_.head_bytes();
        if (n == 0 || heads[n - 1] != head) heads[n++] = head;  // else it is padding
      }
    }
  }
}

FetchQueue AttentionPlan::cached_heads(int thread) const {
  const auto t = static_cast<size_t>(thread);
  FetchQueue queue;
  queue.blocks = cached_heads_.data() + t * static_cast<size_t>(max_cached_heads_);
  queue.n_blocks = n_cached_heads_[t];
  queue.block_bytes = static_cast<ptrdiff_t>(shape_.head_bytes());
  return queue;
}

}  // namespace bass::cpu
