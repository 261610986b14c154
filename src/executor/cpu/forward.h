// The forward pass of one model over a ragged batch on the CPU.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/thread_team.h"
#include "bass/engine.h"
#include "executor/cpu/attention_plan.h"
#include "executor/cpu/cpu_model.h"
#include "executor/cpu/result_rows.h"
#include "executor/cpu/thread_rows.h"
#include "executor/step_sampling.h"
#include "kernels/cpu/kernels.h"
#include "model/decoder.h"

namespace bass::cpu {

struct ForwardOptions {
  int max_rows = 0;  // of one batch
  int n_planes = 1;  // activation planes for quantised weights: 1 is int8, 2 is int16
  int n_threads = 1;
  AttentionKind attention = AttentionKind::kFused;
  std::vector<int32_t> tap_layers;  // whose output goes to the pages, ascending
  bool own_rows = true;             // threads may take rows by themselves (ThreadRows)
  StepProfile* profile = nullptr;
};

/// Rows of activations in every form that the weights read.
struct ActivationStage {
  AlignedBuffer memory;
  ActivationRows rows;
  std::byte* panels = nullptr;  // where rows.panels lie, if the batch wants any
};

/// The same rows for a call of quantise whose input is the f32 row itself, or has been stored there already.
inline ActivationRows without_f32(ActivationRows rows) {
  rows.f32 = nullptr;
  return rows;
}

/// Which experts see which rows of a batch. An expert's rows lie together, in slots: whole row blocks of kRowBlock,
/// from a panel's first row on if there are as many as products on panels want.
struct ExpertRows {
  int n_used = 0;  // experts of a row
  size_t max_slots = 0;
  std::vector<int> chosen;      // [max_rows, n_used] expert ids, ascending
  std::vector<float> weights;   // [max_rows, n_used]
  std::vector<int> slots;       // [max_rows, n_used]
  std::vector<int> begins;      // [n_experts] first slot
  std::vector<int> counts;      // [n_experts] rows
  std::vector<int> active;      // experts that have rows; room for n_experts
  AlignedBuffer probabilities;  // float [max_rows, n_experts]
  ActivationStage input;        // [max_slots, d_model]
  AlignedBuffer results;        // float [max_slots, d_model]
  [[nodiscard]] size_t at(int row, int i) const { return static_cast<size_t>(row * n_used + i); }
};

/// What a draft that was made for one main model begins with.
struct DraftInput {
  std::vector<int> hidden_rows;  // [n_rows] index into `hidden`, or kFromTaps
  ActivationStage taps;          // [max_rows, n_taps d_main]
  AlignedBuffer features;        // float [max_rows, d_model]
  ActivationStage joined;        // [max_rows, input.n_in]
  AlignedBuffer hidden;          // float [max_rows, d_model]: x of rows of the last batch (keep_hidden)
  AlignedBuffer row;             // float [n_threads, row_floats]
  size_t row_floats = 0;
};

/// A batch is filled by one thread (begin_batch, add_*, end_batch); run and logits are SPMD: every thread of the team
/// calls them with its own context.
class CpuForward {
 public:
  CpuForward(const CpuModel* model, const Kernels* kernels, const ForwardOptions& options);

  /// False when the workspace could not be allocated.
  [[nodiscard]] bool ok() const;

  void begin_batch();
  /// Makes room for a batch, so that filling it on a running team allocates nothing. May throw std::bad_alloc.
  void reserve(size_t n_segments, size_t max_chunks);

  /// Starts a segment at position `start`; its tokens follow by add_token. `is_decode`: it decodes or verifies, and is
  /// no prompt's chunk. main_pages: where a draft finds the hidden states of the positions in front of its tokens.
  void add_segment(int start, bool is_decode, std::span<const PageId> pages, int max_text_len,
                   std::span<const PageId> main_pages = {});
  /// hidden_row: in a draft, the kept row that stands for the hidden states in front of a token that the main model has
  /// not seen.
  void add_token(TokenId token, int hidden_row = kFromTaps);
  static constexpr int kFromTaps = -1;
  /// Behind the last segment's tokens: only its last n_rows rows are asked for by logits or keep_hidden. Unless it is
  /// said, all are; where the last layer's output goes to the pages, all rows are needed anyway.
  void want_results(int n_rows);
  void end_batch();
  [[nodiscard]] int n_rows() const { return static_cast<int>(tokens_.size()); }

  void run(const TeamContext& context);

  /// Logits of up to kLogitsBlockRows rows of the batch that ran last. out: [rows.size(), vocab_size]
  void logits(const TeamContext& context, std::span<const int> rows, float* out);
  /// The same with row i's products with more[i], unless it is null, behind its logits. Such matrices have at most
  /// row_len - vocab_size outputs; make_room_for_more was called. more: [rows.size()]; out: [rows.size(), row_len]
  void logits(const TeamContext& context, std::span<const int> rows, std::span<const PackedMatrix* const> more,
              int row_len, float* out);
  /// Before the first such call. ok() says whether there was memory.
  void make_room_for_more() { more_input_ = make_stage(kLogitsBlockRows * kRowBlock, model_->config().d_model); }

  /// Keeps x of these rows of the batch that ran last for the next one, of a draft that reads hidden states. SPMD; ends
  /// without a barrier.
  void keep_hidden(const TeamContext& context, std::span<const int> rows);

  /// Seconds that attention took in all passes since construction: the mean of the threads.
  [[nodiscard]] double attention_s() const;

  /// Whether each thread takes rows of its own through the layers of the batch that was ended last.
  [[nodiscard]] bool has_own_rows() const { return thread_rows_.is_apart(); }

  /// What all passes since construction asked for.
  [[nodiscard]] const WorkByPart& work() const { return work_; }

 private:
  friend class CpuOps;

  using Stage = ActivationStage;
  /// Rows of gate and up that are computed at once; whole row blocks.
  static constexpr int kGateUpRows = 96;
  /// Rows of own_normed_ for each thread, half of them used: so many that its bytes are whole cache lines.
  static constexpr int kOwnRows = 2 * kRowBlock;
  /// `shared_f32`: where the f32 rows lie if the weights read any; null: in the stage's own memory.
  Stage make_stage(int n_rows, int n_cols, float* shared_f32 = nullptr) const;
  void make_plans();
  /// Those that hold rows of a batch.
  [[nodiscard]] std::array<Stage*, 6> batch_stages() {
    return {&normed_, &attended_, &gated_, &experts_.input, &draft_input_.taps, &draft_input_.joined};
  }
  /// Whether threads may ever take rows by themselves (ThreadRows). Experts, and a draft's input, share rows otherwise;
  /// PAD is one rectangle; with AMX each thread would unpack all weights, nearly a quarter of a product of 16 rows.
  [[nodiscard]] bool can_be_apart() const {
    return options_.own_rows && options_.n_threads > 1 &&
           options_.max_rows >= ThreadRows::min_rows(options_.n_threads) && kernels_->isa != Isa::kAvx512Amx &&
           options_.attention != AttentionKind::kPad && model_->config().n_experts == 0 && !model_->config().main;
  }
  void build_plans();
  void count_row_cost();
  void make_experts();
  void make_draft_input();
  [[nodiscard]] const AttentionPlan& plan_of(int layer) const {
    if (is_last(layer) && !results_.is_all()) return result_plan_;
    return attention_plans_[layer_plans_[static_cast<size_t>(layer)]];
  }
  /// Layers that go by attention_plans_[plan_idx] in this batch.
  [[nodiscard]] int n_layers_of(size_t plan_idx) const;
  /// Few rows are normalised by every thread for itself: that takes less time than waiting for those of another, and
  /// than writing to a row block together.
  [[nodiscard]] bool norms_are_repeated(int n_rows) const {
    return n_rows <= kRowBlock && model_->config().n_experts == 0;
  }
  [[nodiscard]] bool is_last(int layer) const { return layer + 1 == model_->config().n_layers; }
  /// What the head reads of n_rows rows.
  [[nodiscard]] ActivationRows head_input(int n_rows) const {
    ActivationRows rows = head_input_.rows;
    if (n_rows < kernels_->min_panel_rows) rows.panels = nullptr;
    return rows;
  }
  /// Where the last layer left the result of a row of the batch.
  [[nodiscard]] const float* result(int row) const;
  void count_work();
  void count_attention(std::span<const ForwardSegment> segments, const AttentionPlan& plan, double n_layers);
  double n_cached_tokens(std::span<const ForwardSegment> segments, int window);
  void count_matmul(StepPart part, double n_rows, double n_reads);
  void count_more_head(const PackedMatrix& matrix, int n_rows);

  const CpuModel* model_;
  const Kernels* kernels_;
  ForwardOptions options_;

  std::vector<TokenId> tokens_;    // [n_rows]
  std::vector<int> positions_;     // [n_rows]
  std::vector<int> row_segments_;  // [n_rows] segment of a row
  std::vector<ForwardSegment> segments_;
  std::vector<AttentionPlan> attention_plans_;  // one for each window that layers have
  std::vector<size_t> layer_plans_;             // [n_layers] index into them
  // Of a batch whose threads have rows of their own: [n_threads], each as attention_plans_.
  std::vector<std::vector<AttentionPlan>> thread_plans_;
  ThreadRows thread_rows_;
  RowCost row_cost_;
  ResultRows results_;
  AttentionPlan result_plan_;                 // the last layer's, where not every row has a result
  std::vector<WorkCounter> next_chunks_;      // [kMatmulOps n_layers + 1] of a pass's products; the last: the head
  std::vector<WorkCounter> next_units_;       // [n_threads] of each thread's share of the plan's first stage
  std::vector<WorkCounter> next_late_units_;  // of its second
  WorkCounter next_finish_;

  AlignedBuffer residual_;          // float [max_rows, d_model]
  AlignedBuffer qkv_;               // float [max_rows, q_dim + 2 kv_dim]
  AlignedBuffer attention_out_;     // float [max_rows, q_dim]; also attended_'s f32 rows
  AlignedBuffer added_;             // float [max_rows, d_model], where it is normalised before it is added
  AlignedBuffer attention_states_;  // float [AttentionPlan::max_states, attention_state_len]
  AlignedBuffer thread_memory_;     // float [n_threads, thread_floats_]: a row block, or a block of gate and up
  size_t thread_floats_ = 0;
  Stage normed_;      // [max_rows, d_model]
  Stage own_normed_;  // [n_threads, kOwnRows, d_model] of few rows, each thread's own
  Stage attended_;    // [max_rows, q_dim]
  Stage gated_;       // [max_rows, d_ff], or of the experts' slots
  Stage head_input_;  // [kLogitsBlockRows, d_model]
  Stage more_input_;  // [kLogitsBlockRows kRowBlock, d_model] the same, each matrix's rows from a whole row block on
  ExpertRows experts_;
  DraftInput draft_input_;
  WorkByPart work_{};
  struct alignas(64) Seconds {
    double value = 0;
  };
  std::vector<Seconds> attention_s_;    // [n_threads]
  bool has_read_head_ = false;          // in this batch
  std::vector<uint32_t> page_batches_;  // [n_pages] the last batch that read a page
  uint32_t batch_idx_ = 0;
};

/// The fused operations of decoder_forward for one thread of the team.
class CpuOps {
 public:
  CpuOps(CpuForward& forward, const TeamContext& context)
      : f_(forward), context_(context), n_rows_(forward.n_rows()), rows_{0, n_rows_} {}

  /// From now on this thread does all of the work on its own rows alone, and operations end without a barrier.
  void take_own_rows();
  /// Waits for all threads; what follows is shared out. Nothing, where they had no rows of their own.
  void share_again();

  void embed();
  void norm(int layer, NormKind kind);
  void project_qkv(int layer);
  void rope_and_write_kv(int layer);
  bool keep_results();
  void attend(int layer);
  void project_output(int layer);
  void route(int layer);
  void gate_up(int layer);
  void project_down(int layer);
  void tap(int layer);

 private:
  void norm_head_rows(std::span<const int> rows, std::span<const PackedMatrix* const> more);
  void multiply_more(std::span<const PackedMatrix* const> more, int row_len, float* out);
  void embed_draft();
  void make_features();
  void join_row(int row);
  /// Normalises and quantises x(i), i in `range`, into rows first_row .. of `out`.
  template <class RowOf>
  void norm_rows(WorkRange range, RowOf x, const CpuNorm& norm, int first_row, const ActivationRows& out) {
    const float* block[kRowBlock];
    for (int i = range.begin, n = 0; i < range.end; i += n, first_row += n) {
      n = std::min(range.end - i, kRowBlock - first_row % kRowBlock);
      for (int r = 0; r < n; ++r) block[r] = x(i + r);
      norm_block({block, static_cast<size_t>(n)}, norm, first_row, out);
    }
  }
  /// Of one row block.
  void norm_block(std::span<const float* const> x, const CpuNorm& norm, int first_row, const ActivationRows& out);
  [[nodiscard]] WorkRange share_rows(int n_rows) const;
  /// This thread's rows of the batch where rows are independent of each other.
  [[nodiscard]] WorkRange my_rows() const { return is_apart_ ? rows_ : context_.share(n_rows_); }
  [[nodiscard]] int n_product_rows() const { return rows_.end - rows_.begin; }
  /// TeamContext::share_out of the tiles of a product of n_rows, in pairs of neighbours, as kernels take them.
  template <class Function>
  void share_tiles(int n_tiles, int n_rows, WorkCounter* counter, Function work) const {
    share_pairs((n_tiles + 1) / 2, n_rows, counter, [&](WorkRange pairs) {
      work(WorkRange{2 * pairs.begin, std::min(2 * pairs.end, n_tiles)});
    });
  }
  /// Where there are few rows, reading matters and not who computes: each thread takes its share as one piece, which is
  /// read ahead as a whole.
  template <class Function>
  void share_pairs(int n_pairs, int n_rows, WorkCounter* counter, Function work) const {
    constexpr int kMinRows = 8;
    const ProductScope scope(*f_.kernels_);
    if (is_apart_) return work({0, n_pairs});
    if (n_rows < kMinRows) return work(context_.share(n_pairs));
    context_.share_out(n_pairs, counter, work);
  }
  /// Of this pass's next product: all threads ask in the same order.
  [[nodiscard]] WorkCounter* next_counter() {
    BASS_CHECK(n_products_ + 1 < f_.next_chunks_.size());  // the last one is the head's
    return &f_.next_chunks_[n_products_++];
  }
  void normalise(const float* x, const CpuNorm& norm, float* out) const;
  void normalise_heads(const CpuLayer& weights, float* q) const;
  /// What the products behind the norm read.
  [[nodiscard]] ActivationRows normed() const {
    return f_.norms_are_repeated(n_rows_) ? rows_from(f_.own_normed_.rows, CpuForward::kOwnRows * context_.thread_idx())
                                          : f_.normed_.rows;
  }
  /// Where a row's keys and values go.
  [[nodiscard]] std::byte* page_of(int row) const;
  void ask_for_kv(int layer, int row, int kv_head) const;
  void attend_batch(int layer);
  [[nodiscard]] const AttentionPlan& plan_of(int layer) const;
  void attend_stage(int layer, const AttentionPlan::Stage& stage, std::span<WorkCounter> next_units);
  /// next: the unit that this thread goes on with, or null
  void attend_unit(int layer, const PlannedUnit& planned, const PlannedUnit* next);
  void fetch_for_attention_of(int layer);
  FetchQueue* fetch_before(std::initializer_list<const PackedMatrix*> later);
  [[nodiscard]] const std::byte* first_head(int layer, const PlannedUnit& unit) const;
  void merge_rest(const PlannedUnit& planned, float* before, const float* rest);
  void finish_token(int layer, const PlannedFinish& planned);
  void quantise_attended(std::span<const int> rows, int kv_head);
  void project_residual(const PackedMatrix& weight, const CpuNorm& post_norm, const ActivationRows& input,
                        StepPart part, FetchQueue* fetch);
  /// One group of the columns of h, for rows of `input`; the same rows of `out` are written. gate: null if not gated.
  void gate_up_group(const PackedMatrix* gate, const PackedMatrix& up, int group, int n_rows,
                     const ActivationRows& input, const ActivationRows& out, FetchQueue* fetch);
  void choose_experts(int row);
  void assign_slots();
  void gate_up_experts(int layer);
  void project_down_experts(int layer);
  /// What follows reads nothing that other threads wrote since the last barrier, and writes nothing that they still
  /// read.
  void go_on(StepPart part) const {
    if (f_.options_.profile != nullptr && context_.thread_idx() == 0) f_.options_.profile->end_part(part);
  }
  /// Waits for the other threads, unless each has rows of its own.
  void end(StepPart part) const { is_apart_ ? go_on(part) : end_part(f_.options_.profile, context_, part); }
  [[nodiscard]] float* thread_memory() const;
  /// Of one of the n_rows_ rows.
  [[nodiscard]] int position_of(int row) const {
    return f_.positions_[static_cast<size_t>(n_rows_ == f_.n_rows() ? row : f_.results_.row(row))];
  }

  friend class CpuForward;
  CpuForward& f_;
  const TeamContext& context_;
  int n_rows_;  // of the batch; from keep_results on, of those with results
  bool is_apart_ = false;
  WorkRange rows_;  // of the products: all, or this thread's own
  size_t n_products_ = 0;
  FetchQueue fetch_;  // for this thread's share of the next layer's attention
};

}  // namespace bass::cpu
