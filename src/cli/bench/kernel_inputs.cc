#include "cli/bench/kernel_inputs.h"

#include "base/check.h"
#include "kernels/cpu/pack.h"

namespace bass {

std::vector<float> made_up_floats(size_t n) {
  std::vector<float> values(n);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-30f;
  }
  return values;
}

MadeUpWeights::MadeUpWeights(DType type, int n_out, int n_in) : memory_(cpu::packed_bytes(type, n_out, n_in)) {
  BASS_CHECK(memory_.ok());
  matrix_ = {cpu::packed_type(type), n_out, n_in, memory_.data()};
  const DTypeInfo& info = dtype_info(type);
  // Bytes of 0x11 are small numbers in every format. Every row is the same.
  const std::vector<std::byte> row(static_cast<size_t>(n_in / info.block_len * info.block_bytes), std::byte{0x11});
  cpu::pack_tiles({type, n_out, n_in, row.data(), 0}, {0, matrix_.n_tiles()}, memory_.data());
}

MadeUpActivations::MadeUpActivations(const cpu::Kernels& kernels, int n_rows, int n_cols, int n_planes) {
  const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(n_cols);
  f32_.resize(n);
  rows_ = {n_cols, 0, f32_.data(), nullptr, nullptr};
  if (n_cols % kGroupLen == 0) {
    groups_ = AlignedBuffer(cpu::activation_bytes(n_rows, n_cols, n_planes));
    panels_ = AlignedBuffer(cpu::panel_bytes(n_rows, n_cols, n_planes));
    BASS_CHECK(groups_.ok() && panels_.ok());
    rows_.n_planes = n_planes;
    rows_.groups = groups_.data();
    if (kernels.min_panel_rows > 0) rows_.panels = panels_.data();
  }
  kernels.quantise(made_up_floats(n).data(), n_cols, {0, n_rows}, {0, n_cols}, rows_);
}

}  // namespace bass
