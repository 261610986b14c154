// The table of one instruction set. Include last.
#pragma once

#include "kernels/cpu/kernels.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {

constexpr Kernels make_kernels(Isa isa, const char* name) {
  return {
      .isa = isa,
      .name = name,
      .min_panel_rows = 0,
      .rms_norm = rms_norm,
      .layer_norm = layer_norm,
      .quantise = quantise,
      .matmul = matmul,
      .keep_tiles = nullptr,
      .release_tiles = nullptr,
      .activate = {activate<Activation::kSilu>, activate<Activation::kGeluTanh>, activate<Activation::kGelu>,
                   activate<Activation::kRelu>},
      .soft_cap = soft_cap,
      .rope = rope,
      .write_kv = write_kv,
      .ask_for_kv = ask_for_kv,
      .attend = attend,
      .merge_chunks = merge_chunks,
      .finish_attention = finish_attention,
      .exp = exp_row,
      .exp2 = exp2_row,
      .log = log_row,
      .row_stats = row_stats,
      .scale = scale,
      .kept_mass = kept_mass,
      .gumbel_argmax = gumbel_argmax,
      .gumbel_argmax_of = gumbel_argmax_of,
      .residual_argmax = residual_argmax,
      .overlap = overlap,
      .peak_loops = {{{dot_peak, kDotOperations}, {pair_dot_peak, kPairDotOperations}, {fma_peak, kFmaOperations}}},
      .read_bytes = read_bytes,
  };
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
