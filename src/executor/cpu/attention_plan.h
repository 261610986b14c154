// How a batch's attention is cut into units of work: three layouts behind one interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bass/engine.h"
#include "cache/page_pool.h"
#include "kernels/cpu/kernels.h"

namespace bass::cpu {

/// The rows of one sequence in a batch.
struct ForwardSegment {
  int row_begin = 0;
  int n_tokens = 0;
  int start = 0;           // position of its first row
  bool is_decode = false;  // decodes or verifies; else it is a prompt's chunk
  std::span<const PageId> pages;
  int max_text_len = 0;                // SegmentPlan's
  std::span<const PageId> main_pages;  // of a draft that reads the main model's hidden states: where they lie
  int n_results = 0;                   // of its last rows: those that are read behind the last layer (ResultRows)
};

/// A unit before it is bound to a layer. States are counted in rows (a query head of a token): a unit's are
/// [n_tokens, group_size], its chunk states [end_chunk - first_chunk, n_tokens, group_size], with chunk_stride between
/// chunks.
struct PlannedUnit {
  static constexpr ptrdiff_t kNoState = -1;
  static constexpr int kNoGroup = -1;

  int kv_head = 0;
  bool is_prompt = false;    // of a prompt's chunk
  size_t rows_begin = 0;     // index into AttentionPlan::rows
  int n_tokens = 0;          // of them
  int n_padding_tokens = 0;  // computed behind them and thrown away
  int padding_row = 0;       // of the batch: padding is computed as if it were this row
  int first_chunk = 0;
  int end_chunk = 0;
  size_t pages_begin = 0;       // index into page_pointers, of chunk 0
  ptrdiff_t before = kNoState;  // the states that it goes on from; none: it starts from nothing
  ptrdiff_t rest = kNoState;    // n_rest chunks' states, which are first merged into these
  int n_rest = 0;
  ptrdiff_t state = kNoState;  // the states that it leaves; none of both: it writes its tokens' results
  ptrdiff_t chunk_states = kNoState;
  ptrdiff_t chunk_stride = 0;  // of chunk_states (of the early stage), or of rest (of the late one)
  int group = kNoGroup;        // of sequences that share chunks: these are its (early), or follow them (late)
  int thread = 0;              // whose share it is in
};

/// A token whose chunks were attended to apart: a running softmax, and the chunks behind it.
struct PlannedFinish {
  int kv_head = 0;
  size_t row_idx = 0;   // index into AttentionPlan::rows
  ptrdiff_t first = 0;  // states [group_size]
  ptrdiff_t rest = 0;   // states [n_rest, group_size], chunk_stride between chunks
  int n_rest = 0;
  ptrdiff_t chunk_stride = 0;
};

/// SPLIT (BASS section 3.2): every sequence on its own, with its own lengths. PAD: the sequences that decode or verify
/// are computed as one rectangle, padded to the longest draft and to the longest context; padding is computed and
/// thrown away. Prompt chunks are never padded against.
/// FUSED: pages that several sequences of the plan share (n samples of one prompt, or prompts that begin alike) are
/// read once for all of them, and each goes on from there with its own; what would keep threads waiting is cut into
/// runs of chunks. In front of a window no chunk is read. All give the same bits, because a row's arithmetic is chunk
/// by chunk at absolute positions, merged in one order.
///
/// Work has two stages with a barrier between them: `early`, then `late` and `finishes`, which need states that
/// the first stage leaves (and which late units may merge in place: each belongs to one). Within a stage everything is
/// independent. A stage's units are divided into a share for each thread: sequences that follow one another in the
/// batch, as the rows are divided that it writes keys and values of, so that its caches have some of what it reads.
/// Within a share the longest units come first. Whoever has done its own share goes on with those of others.
class AttentionPlan {
 public:
  struct Stage {
    std::vector<PlannedUnit> units;
    std::vector<int> bounds;  // [n_threads + 1] thread t's share are the units [bounds[t], bounds[t + 1])

    [[nodiscard]] WorkRange share(int thread) const {
      const auto t = static_cast<size_t>(thread);
      return {bounds[t], bounds[t + 1]};
    }
  };

  Stage early;
  Stage late;
  std::vector<PlannedFinish> finishes;  // of the late stage
  std::vector<int> rows;                // rows of the batch, a unit's tokens one behind the other
  std::vector<const std::byte*> page_pointers;

  /// window: positions that a token sees, itself among them; 0: all
  AttentionPlan(const KvShape& shape, int n_threads, int window = 0);

  [[nodiscard]] int window() const { return window_; }
  /// The first position that a token at `position` sees.
  [[nodiscard]] int first_seen(int position) const {
    return window_ == 0 || position < window_ ? 0 : position - window_ + 1;
  }

  /// Room for any batch of so many rows, segments and chunks a segment, so that `build` allocates nothing.
  void reserve(size_t n_rows, size_t n_segments, size_t max_chunks);

  /// `page_base` is where page 0 lies; pages are page_bytes apart.
  void build(AttentionKind kind, std::span<const ForwardSegment> segments, const std::byte* page_base,
             size_t page_bytes);

  /// What the sequences that decode have in the pages, by the thread in whose share it is, in the order of the shares.
  /// Of a thread's there are as many blocks as its caches are worth filling with; of layer 0.
  [[nodiscard]] FetchQueue cached_heads(int thread) const;

  /// States that a batch of n_rows needs at most.
  static size_t max_states(size_t n_rows, const KvShape& shape);

 private:
  using Group = std::span<const int>;  // of segments

  /// Segments order_[begin, end) that begin with the same n_shared chunks.
  struct Alike {
    size_t begin = 0;
    size_t end = 0;
    int n_shared = 0;
    int min_start = 0;    // of the segments
    int max_end = 0;      // positions that the longest has behind this step
    int64_t n_saved = 0;  // chunks that need not be read again, of what was taken of it
  };
  void add_to_run(const Alike& run);
  void close(std::span<const ForwardSegment> segments, Alike* run);

  /// Where the shared units of a group leave their states, and its members' units go on from.
  struct SharedStates {
    ptrdiff_t begin = 0;        // [n_kv_heads, head_states]
    ptrdiff_t head_states = 0;  // tokens of all members x group_size
  };

  void add_pages(const ForwardSegment& segment, int n_chunks, const std::byte* page_base, size_t page_bytes);
  size_t add_rows(const ForwardSegment& segment);
  void add_for_heads(PlannedUnit unit, ptrdiff_t head_states, std::vector<PlannedUnit>* stage) const;
  void add_segment(const ForwardSegment& segment, size_t pages_begin);
  void add_padded(const ForwardSegment& segment, size_t pages_begin, int n_padded_tokens, int n_chunks);
  void add_fused(std::span<const ForwardSegment> segments);
  void divide(std::span<const ForwardSegment> segments);
  /// Attends to the chunks [first_shared, n_shared) together.
  void add_group(std::span<const ForwardSegment> segments, Group group, int first_shared, int n_shared);
  static size_t max_added_runs(int n_threads);
  [[nodiscard]] int64_t makespan();
  [[nodiscard]] int64_t total_cost(const std::vector<PlannedUnit>& units) const;
  void cut_long_units();
  [[nodiscard]] int n_runs_of(const PlannedUnit& unit, int64_t total) const;
  ptrdiff_t take_states(int n_rest, ptrdiff_t chunk_stride);
  /// n_whole: of early.units, those that are no runs. False: it stays whole
  bool cut(size_t unit_idx, size_t n_whole, int n_runs);
  bool cut_shared(const PlannedUnit& unit, size_t n_whole, int n_runs, int n_rest);
  /// Leaves the first of a unit's runs in its place and adds the others, whose chunks' states begin at `rest`.
  void add_runs(size_t unit_idx, int n_runs, ptrdiff_t rest, ptrdiff_t chunk_stride);
  void share_out(Stage* stage) const;
  void collect_cached_heads();
  [[nodiscard]] int first_chunk(int position) const { return first_seen(position) / kKvPageLen; }
  [[nodiscard]] int max_unit_tokens() const;
  [[nodiscard]] int64_t cost(const PlannedUnit& unit) const;

  KvShape shape_;
  int n_threads_;
  int window_;
  ptrdiff_t n_states_ = 0;
  int64_t idle_cost_ = 0;  // what threads would wait, as `cost` counts, less what cuts have added
  std::vector<SharedStates> groups_;
  std::vector<int> order_;             // segments that decode, by their whole pages
  std::vector<Alike> alike_;           // runs of order_ that are taken together, in order
  std::vector<Alike> open_;            // runs that go on, each in the one in front of it
  std::vector<size_t> segment_pages_;  // [n_segments] index into page_pointers of chunk 0
  std::vector<int64_t> loads_;         // [n_threads]
  // [n_threads, max_cached_heads_] where a chunk's K begins, in layer 0
  std::vector<const std::byte*> cached_heads_;
  std::vector<int> n_cached_heads_;  // [n_threads]
  int max_cached_heads_;
};

}  // namespace bass::cpu
