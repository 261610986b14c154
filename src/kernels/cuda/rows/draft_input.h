// How hidden states get from the main model's pass to a draft that was made for it (executor/cpu/forward_draft.cc).
#pragma once

#include "kernels/cuda/rows/embed_rows.h"
#include "kernels/cuda/rows/norm_rows.h"

namespace bass::cuda {

/// Where the hidden states lie in the main model's pages: bfloat16 [kPageLen, n_values] behind keys and values.
struct DeviceTaps {
  std::byte* pages = nullptr;
  int64_t page_bytes = 0;
  int64_t offset = 0;    // in a page
  int32_t n_values = 0;  // of a position: n_taps d_model

  [[nodiscard]] BASS_HD uint16_t* at(int32_t page, int slot) const {
    return reinterpret_cast<uint16_t*>(pages + page * page_bytes + offset) + int64_t{slot} * n_values;
  }
};

/// A layer's output goes to the pages.
struct TapRows {
  static constexpr const char* kName = "tap_rows";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = false;
  DeviceBatch batch;
  DeviceTaps taps;
  const float* x = nullptr;  // [n_rows, n]
  int32_t n = 0;
  int32_t first_value = 0;  // of this layer among a position's
  [[nodiscard]] LaunchShape shape() const { return {{batch.n_rows, ceil_div(n, kMaxThreads), 1}, kMaxThreads, 0}; }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().y * context.n_threads() + context.thread();
    if (i >= n) return;
    const DeviceRow row = batch.rows[context.block().x];
    const int32_t page = batch.pages[batch.segments[row.segment].first_page + row.position / kPageLen];
    taps.at(page, row.position % kPageLen)[first_value + i] = to_bf16(x[int64_t{context.block().x} * n + i]);
  }
};

/// out = concat over taps of rms_norm(tap) * tap_norm, of the position in front of a row's own; zeros for a text's
/// first token and for rows that stand on a kept row.
struct FeatureRows {
  static constexpr const char* kName = "feature_rows";
  static constexpr int kMaxThreads = kWholeRowThreads;
  static constexpr bool kCooperates = true;
  DeviceBatch batch;
  DeviceTaps taps;
  int32_t d_main = 0;
  const float* tap_norm = nullptr;  // [n_values]
  float eps = 0;
  DeviceActivations out;  // n_cols is n_values
  [[nodiscard]] LaunchShape shape() const {
    const size_t bytes = SharedBytes().add<float>(taps.n_values).add<float>(kRowScratch).bytes();
    return {{batch.n_rows, 1, 1}, kMaxThreads, bytes};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int n = taps.n_values;
    float* values = context.template shared<float>(n);
    float* scratch = context.template shared<float>(kRowScratch);
    const int row_idx = context.block().x;
    const DeviceRow row = batch.rows[row_idx];
    const int in_front = row.position - 1;
    const bool is_empty = in_front < 0 || row.hidden_row >= 0;  // the same in all threads
    const uint16_t* states = nullptr;
    if (!is_empty) {
      const int32_t page = batch.pages[batch.segments[row.segment].first_main_page + in_front / kPageLen];
      states = taps.at(page, in_front % kPageLen);
    }
    for (int i = context.thread(); i < n; i += context.n_threads()) values[i] = is_empty ? 0.0f : from_bf16(states[i]);
    for (int begin = 0; begin < n && !is_empty; begin += d_main) {
      normalise_shared(context, values + begin, d_main, {tap_norm + begin, nullptr}, eps, scratch);
    }
    context.sync();
    for (int i = context.thread(); i < n; i += context.n_threads()) out.store(int64_t{row_idx} * n + i, values[i]);
    if (out.q != nullptr) quantise_columns(context, values, row_idx, n, out);
    if (out.token.q != nullptr)
      quantise_token(context, values, reinterpret_cast<uint32_t*>(scratch), row_idx, n, out.token);
  }
};

/// out = concat(rms_norm(embedding) * embed_norm, rms_norm(feature) * feature_norm), or the first part alone.
struct JoinRows {
  static constexpr const char* kName = "join_rows";
  static constexpr int kMaxThreads = kWholeRowThreads;
  static constexpr bool kCooperates = true;
  DeviceMatrix embedding;  // the main model's
  const DeviceRow* rows = nullptr;
  const int32_t* drafted = nullptr;
  int32_t n_rows = 0;
  float scale = 1;
  const float* embed_norm = nullptr;    // [embedding.n_in]
  const float* feature_norm = nullptr;  // [d_model]; null: no features
  int32_t d_model = 0;
  const float* features = nullptr;  // [n_rows, d_model]
  const float* hidden = nullptr;    // [.., d_model] kept rows: DeviceRow::hidden_row
  float eps = 0;
  DeviceActivations out;
  [[nodiscard]] BASS_HD int n() const { return embedding.n_in + (feature_norm != nullptr ? d_model : 0); }
  [[nodiscard]] LaunchShape shape() const {
    return {{n_rows, 1, 1}, kMaxThreads, SharedBytes().add<float>(n()).add<float>(kRowScratch).bytes()};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    float* values = context.template shared<float>(n());
    float* scratch = context.template shared<float>(kRowScratch);
    const int row_idx = context.block().x;
    const DeviceRow row = rows[row_idx];
    const int d_main = embedding.n_in;
    const int32_t token = token_of(row, drafted);
    for (int i = context.thread(); i < d_main; i += context.n_threads()) {
      const float value = dequantised_weight(embedding, token, i);
      values[i] = scale != 1.0f ? value * scale : value;
    }
    normalise_shared(context, values, d_main, {embed_norm, nullptr}, eps, scratch);
    if (feature_norm != nullptr) {
      const float* feature =
          row.hidden_row >= 0 ? hidden + int64_t{row.hidden_row} * d_model : features + int64_t{row_idx} * d_model;
      for (int i = context.thread(); i < d_model; i += context.n_threads()) values[d_main + i] = feature[i];
      normalise_shared(context, values + d_main, d_model, {feature_norm, nullptr}, eps, scratch);
    }
    for (int i = context.thread(); i < n(); i += context.n_threads()) out.store(int64_t{row_idx} * n() + i, values[i]);
    if (out.q != nullptr) quantise_columns(context, values, row_idx, n(), out);
    if (out.token.q != nullptr)
      quantise_token(context, values, reinterpret_cast<uint32_t*>(scratch), row_idx, n(), out.token);
  }
};

}  // namespace bass::cuda
