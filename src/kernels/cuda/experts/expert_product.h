// Products with the weights of experts: one launch for all experts of a layer.
#pragma once

#include "kernels/cuda/matmul/product.h"
#include "kernels/cuda/matmul/tile_product.h"

namespace bass::cuda {

/// The rows of a batch, once for each expert that a row is given to, lie in slots: an expert's together, in the order
/// of the rows; experts in the order of their ids.
struct ExpertSlots {
  int32_t n_experts = 0;
  const int32_t* begins = nullptr;  // [n_experts + 1] an expert's first slot
};

/// out[slot] = W[expert of the slot] x[slot]
struct ExpertProductArguments {
  DeviceMatrix first;                      // expert 0's: all have its type and shape
  const DeviceMatrix* matrices = nullptr;  // [n_experts], in the device's memory
  ExpertSlots slots;
  DeviceActivations x;   // [slots, n_in]
  float* out = nullptr;  // [slots, n_out]
  int32_t max_rows = 0;  // that one expert may have
};

/// A product of product.h or tile_product.h for each expert, with its slots as rows. Blocks for rows that an expert
/// does not have end at once: how many it has is known on the device alone.
template <class Product>
struct ForExperts {
  static constexpr int kMaxThreads = Product::kMaxThreads;
  static constexpr bool kCooperates = Product::kCooperates;

  ExpertProductArguments a;

  [[nodiscard]] LaunchShape shape() const {
    ProductArguments of_one;
    of_one.w = a.first;
    of_one.x = a.x;
    of_one.n_rows = a.max_rows;
    LaunchShape shape = Product{{of_one}}.shape();
    shape.grid.z = a.slots.n_experts;
    return shape;
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int expert = context.block().z;
    const int begin = a.slots.begins[expert];
    const int n_rows = a.slots.begins[expert + 1] - begin;
    if (Product::first_row(context.block()) >= n_rows) return;
    ProductArguments of_one;
    of_one.w = a.matrices[expert];
    of_one.x = a.x.from_row(begin);
    of_one.out = a.out + int64_t{begin} * of_one.w.n_out;
    of_one.out_stride = of_one.w.n_out;
    of_one.n_rows = n_rows;
    Product{{of_one}}(context);
  }
};

struct ExpertFloat : ForExperts<FloatProduct> {
  static constexpr const char* kName = "expert_float";
};
struct Expert4 : ForExperts<Tile4Rows16> {
  static constexpr const char* kName = "expert_4";
};
struct Expert4Minima : ForExperts<Tile4MinimaRows16> {
  static constexpr const char* kName = "expert_4_minima";
};
struct Expert4Whole : ForExperts<Tile4WholeRows16> {
  static constexpr const char* kName = "expert_4_whole";
};
struct Expert8 : ForExperts<Tile8Rows16> {
  static constexpr const char* kName = "expert_8";
};
struct Expert8Minima : ForExperts<Tile8MinimaRows16> {
  static constexpr const char* kName = "expert_8_minima";
};
struct Expert8Whole : ForExperts<Tile8WholeRows16> {
  static constexpr const char* kName = "expert_8_whole";
};
struct Expert8Half : ForExperts<Tile8HalfRows16> {
  static constexpr const char* kName = "expert_8_half";
};
struct Expert8HalfMinima : ForExperts<Tile8HalfMinimaRows16> {
  static constexpr const char* kName = "expert_8_half_minima";
};

}  // namespace bass::cuda
