// Drafts that were made for one main model: how hidden states get from the main model's pass to the draft's, and what
// the draft's residual stream begins with (DraftInputRefs).
#include <algorithm>
#include <bit>
#include <cstring>

#include "executor/cpu/forward.h"

namespace bass::cpu {
namespace {

// To nearest even. What is not a number stays so.
uint16_t to_bf16(float value) {
  if (!(value == value)) return 0x7FC0;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float from_bf16(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

}  // namespace

void CpuForward::make_draft_input() {
  const ModelConfig& config = model_->config();
  const CpuDraftInput& weights = model_->weights().draft_input();
  const auto d_model = static_cast<size_t>(config.d_model);
  const auto max_rows = static_cast<size_t>(options_.max_rows);
  DraftInput& input = draft_input_;
  input.hidden_rows.reserve(max_rows);
  input.row_floats = static_cast<size_t>(std::max({weights.input.n_in, weights.tap.n_in, config.d_model}));
  input.row = AlignedBuffer(static_cast<size_t>(options_.n_threads) * input.row_floats * sizeof(float));
  if (weights.input.n_out > 0) input.joined = make_stage(options_.max_rows, weights.input.n_in);
  if (weights.tap.n_out == 0) return;
  input.taps = make_stage(options_.max_rows, weights.tap.n_in);
  input.features = AlignedBuffer(max_rows * d_model * sizeof(float));
  input.hidden = AlignedBuffer(max_rows * d_model * sizeof(float));
}

void CpuForward::keep_hidden(const TeamContext& context, std::span<const int> rows) {
  if (draft_input_.hidden.size_bytes() == 0) return;
  const auto d_model = static_cast<size_t>(model_->config().d_model);
  const WorkRange mine = context.share(static_cast<int>(rows.size()));
  for (int i = mine.begin; i < mine.end; ++i) {
    std::memcpy(draft_input_.hidden.as<float>() + static_cast<size_t>(i) * d_model,
                result(rows[static_cast<size_t>(i)]), d_model * sizeof(float));
  }
}

// The rows stay as they are until the next layer adds to them, behind barriers: none is needed here.
void CpuOps::tap(int layer) {
  const std::vector<int32_t>& layers = f_.options_.tap_layers;
  const auto found = std::find(layers.begin(), layers.end(), layer);
  if (found == layers.end()) return;
  const auto d_model = static_cast<size_t>(f_.model_->config().d_model);
  const auto offset = static_cast<size_t>(found - layers.begin()) * d_model;
  const WorkRange rows = my_rows();
  for (int row = rows.begin; row < rows.end; ++row) {
    const auto i = static_cast<size_t>(row);
    const int position = f_.positions_[i];
    const ForwardSegment& segment = f_.segments_[static_cast<size_t>(f_.row_segments_[i])];
    const float* x = f_.residual_.as<float>() + i * d_model;
    const PageId page = segment.pages[static_cast<size_t>(position / kKvPageLen)];
    std::transform(x, x + d_model, f_.model_->taps(page, position % kKvPageLen) + offset, to_bf16);
  }
}

void CpuOps::embed_draft() {
  const PackedMatrix& input = f_.model_->weights().draft_input().input;
  const int d_model = f_.model_->config().d_model;
  if (f_.model_->weights().draft_input().tap.n_out > 0) make_features();
  const WorkRange rows = context_.share(n_rows_);
  for (int row = rows.begin; row < rows.end; ++row) join_row(row);
  end(StepPart::kEmbed);
  if (input.n_out == 0) return;
  f_.kernels_->matmul(input, f_.draft_input_.joined.rows, n_rows_, context_.share(input.n_tiles()),
                      f_.residual_.as<float>(), d_model, 0, false, nullptr);
  end(StepPart::kEmbed);
}

// g of rows whose hidden states the main model has computed; kept rows lie ready. A text's first token has nothing in
// front of it: zeros.
void CpuOps::make_features() {
  const CpuDraftInput& weights = f_.model_->weights().draft_input();
  const ModelConfig& config = f_.model_->config();
  const int d_main = config.main->d_model;
  const DraftInput& input = f_.draft_input_;
  if (std::none_of(input.hidden_rows.begin(), input.hidden_rows.end(), [](int kept) { return kept < 0; })) return;
  float* values = input.row.as<float>() + static_cast<size_t>(context_.thread_idx()) * input.row_floats;
  const WorkRange rows = context_.share(n_rows_);
  for (int row = rows.begin; row < rows.end; ++row) {
    const auto i = static_cast<size_t>(row);
    const ForwardSegment& segment = f_.segments_[static_cast<size_t>(f_.row_segments_[i])];
    const int in_front = f_.positions_[i] - 1;
    if (in_front < 0 || input.hidden_rows[i] >= 0) {
      std::fill(values, values + weights.tap.n_in, 0.0f);
    } else {
      const PageId page = segment.main_pages[static_cast<size_t>(in_front / kKvPageLen)];
      const uint16_t* taps = f_.model_->main()->taps(page, in_front % kKvPageLen);
      std::transform(taps, taps + weights.tap.n_in, values, from_bf16);
      for (int begin = 0; begin < weights.tap.n_in; begin += d_main) {
        f_.kernels_->rms_norm(values + begin, weights.tap_norm + begin, d_main, config.norm_eps, values + begin);
      }
    }
    f_.kernels_->quantise(values, 0, {row, row + 1}, {0, weights.tap.n_in}, input.taps.rows);
  }
  end(StepPart::kEmbed);
  f_.kernels_->matmul(weights.tap, input.taps.rows, n_rows_, context_.share(weights.tap.n_tiles()),
                      input.features.as<float>(), config.d_model, 0, false, nullptr);
  end(StepPart::kEmbed);
}

void CpuOps::join_row(int row) {
  const CpuDraftInput& weights = f_.model_->weights().draft_input();
  const ModelConfig& config = f_.model_->config();
  const ModelConfig& main = f_.model_->main()->config();
  const DraftInput& input = f_.draft_input_;
  const auto i = static_cast<size_t>(row);
  const auto d_model = static_cast<size_t>(config.d_model);
  const bool is_direct = weights.input.n_out == 0;
  float* x = is_direct ? f_.residual_.as<float>() + i * d_model
                       : input.row.as<float>() + static_cast<size_t>(context_.thread_idx()) * input.row_floats;
  f_.model_->weights().embed(f_.tokens_[i], x);
  if (main.embedding_scale != 1.0f) f_.kernels_->scale(x, main.embedding_scale, main.d_model, x);
  if (is_direct) return;
  f_.kernels_->rms_norm(x, weights.embed_norm, main.d_model, config.norm_eps, x);
  if (weights.tap.n_out > 0) {
    const int kept = input.hidden_rows[i];
    const float* feature = kept >= 0 ? input.hidden.as<float>() + static_cast<size_t>(kept) * d_model
                                     : input.features.as<float>() + i * d_model;
    f_.kernels_->rms_norm(feature, weights.feature_norm, config.d_model, config.norm_eps, x + main.d_model);
  }
  f_.kernels_->quantise(x, 0, {row, row + 1}, {0, weights.input.n_in}, input.joined.rows);
}

}  // namespace bass::cpu
