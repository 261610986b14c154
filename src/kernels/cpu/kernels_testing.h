// What the tests of the kernels share: aligned memory, random weights in file format, activations in all forms.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pack.h"
#include "tensor/dtype.h"

namespace bass::cpu::testing {

template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  explicit AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{64}); }
  bool operator==(const AlignedAllocator&) const { return true; }
};
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

inline std::vector<const Kernels*> all_kernels() {
  const Kernels* tables[8];
  const int n = available_kernels(tables, 8);
  return {tables, tables + n};
}
/// And the tiles of processors that are not this one.
inline std::vector<const Kernels*> kernels_and_emulated_tiles() {
  std::vector<const Kernels*> tables = all_kernels();
  if (emulated_amx() != nullptr) tables.push_back(emulated_amx());
  return tables;
}

inline std::string isa_name(const ::testing::TestParamInfo<const Kernels*>& param) { return param.param->name; }

inline std::vector<float> random_floats(size_t n, std::mt19937& rng, float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = normal(rng);
  return values;
}

/// Where the f16 numbers of a block lie.
inline std::vector<size_t> half_offsets(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, m)};
    case DType::kQ3_K:
      return {offsetof(BlockQ3_K, d)};
    case DType::kQ6_K:
      return {offsetof(BlockQ6_K, d)};
    default:
      return {0};
  }
}

/// Random weights in the layout of a file; quants use their whole range, also -128.
struct FileMatrix {
  DType type;
  int n_out;
  int n_in;
  size_t row_bytes;
  std::vector<std::byte> data;

  FileMatrix(DType dtype, int out, int in, std::mt19937& rng) : type(dtype), n_out(out), n_in(in) {
    const DTypeInfo& info = dtype_info(type);
    row_bytes = static_cast<size_t>(n_in / info.block_len * info.block_bytes);
    data.resize(row_bytes * static_cast<size_t>(n_out));
    for (std::byte& byte : data) byte = static_cast<std::byte>(rng() & 255);
    for (int r = 0; r < n_out; ++r) {
      for (int b = 0; b < n_in / info.block_len; ++b) set_scale(r, b, info, rng);
    }
  }

  [[nodiscard]] const std::byte* row(int r) const { return data.data() + static_cast<size_t>(r) * row_bytes; }

 private:
  // Overwrites what must be a sensible number: the scale and the minimum, or the element of a float type.
  void set_scale(int r, int b, const DTypeInfo& info, std::mt19937& rng) {
    std::byte* block = data.data() + static_cast<size_t>(r) * row_bytes + static_cast<size_t>(b * info.block_bytes);
    const float value = random_floats(1, rng, 0.05f)[0];
    if (type == DType::kF32) {
      std::memcpy(block, &value, sizeof(value));
      return;
    }
    if (type == DType::kBF16) {
      uint32_t wide;
      std::memcpy(&wide, &value, sizeof(wide));
      const auto bits = static_cast<uint16_t>(wide >> 16);
      std::memcpy(block, &bits, sizeof(bits));
      return;
    }
    for (const size_t offset : half_offsets(type)) {
      const uint16_t bits = f32_to_f16(offset == 0 ? value : random_floats(1, rng, 0.1f)[0]);
      std::memcpy(block + offset, &bits, sizeof(bits));
    }
  }
};

/// A packed copy of a FileMatrix.
struct PackedCopy {
  AlignedVector<std::byte> data;
  PackedMatrix matrix;

  explicit PackedCopy(const FileMatrix& file) : data(packed_bytes(file.type, file.n_out, file.n_in)) {
    matrix = {packed_type(file.type), file.n_out, file.n_in, data.data()};
    pack_tiles({file.type, file.n_out, file.n_in, file.data.data(), file.row_bytes}, {0, matrix.n_tiles()},
               data.data());
  }
};

/// n_rows of activations in all forms, quantised by one table.
struct Activations {
  std::vector<float> f32;
  AlignedVector<std::byte> groups;
  AlignedVector<std::byte> panels;
  ActivationRows rows;

  Activations(const Kernels& kernels, const float* x, int n_rows, int n_cols, int n_planes)
      : f32(static_cast<size_t>(n_rows) * static_cast<size_t>(n_cols)),
        groups(activation_bytes(n_rows, n_cols, n_planes), std::byte{0x55}),
        panels(panel_bytes(n_rows, n_cols, n_planes), std::byte{0x55}) {
    rows = {n_cols, n_planes, f32.data(), groups.data(), kernels.min_panel_rows > 0 ? panels.data() : nullptr};
    kernels.quantise(x, n_cols, {0, n_rows}, {0, n_cols}, rows);
  }

  [[nodiscard]] int8_t quant(int row, int col, int plane) const {
    const std::byte* record = rows.record(row, col / kGroupLen);
    return static_cast<int8_t>(
        record[activation_quants_offset(plane, row % kRowBlock) + static_cast<size_t>(col % kGroupLen)]);
  }
  template <class T>
  [[nodiscard]] T field(int row, int group, ActivationField which) const {
    T value;
    std::memcpy(&value, rows.record(row, group) + activation_field_offset(rows.n_planes, which, row % kRowBlock), 4);
    return value;
  }
};

/// [n_rows, w.n_out]
inline std::vector<float> product(const Kernels& kernels, const PackedMatrix& w, const Activations& x, int n_rows) {
  std::vector<float> out(static_cast<size_t>(n_rows) * static_cast<size_t>(w.n_out));
  kernels.matmul(w, x.rows, n_rows, {0, w.n_tiles()}, out.data(), w.n_out, 0, false, nullptr);
  return out;
}

/// Equal bit for bit; a NaN equals the same NaN.
inline ::testing::AssertionResult same_bits(const float* a, const float* b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "element " << i << " of " << n << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}
inline ::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " elements";
  return same_bits(a.data(), b.data(), a.size());
}

}  // namespace bass::cpu::testing
