// What a piece of work asks of a machine at least, in bytes and operations.
#pragma once

#include <array>
#include <cstddef>
#include <numeric>

namespace bass {

/// Kinds of instructions, each with a peak of its own.
enum class OperationClass : size_t { kInt8Dot, kInt16Dot, kF32Fma };
inline constexpr size_t kOperationClasses = 3;

/// Numbers by OperationClass.
using ByOperationClass = std::array<double, kOperationClasses>;

/// The least that some work asks of a machine; what a kernel does beyond it is the kernel's own affair.
struct Work {
  double bytes = 0;               ///< weights and cached keys and values, each read once
  ByOperationClass operations{};  ///< multiplications and additions

  double& operator[](OperationClass kind) { return operations[static_cast<size_t>(kind)]; }
  double operator[](OperationClass kind) const { return operations[static_cast<size_t>(kind)]; }
  [[nodiscard]] double total_operations() const { return std::accumulate(operations.begin(), operations.end(), 0.0); }

  /// Adds `other` `n` times.
  Work& add(const Work& other, double n = 1) {
    bytes += n * other.bytes;
    for (size_t i = 0; i < kOperationClasses; ++i) operations[i] += n * other.operations[i];
    return *this;
  }
  friend Work operator+(Work a, const Work& b) { return a.add(b); }
  friend Work operator-(Work a, const Work& b) { return a.add(b, -1); }
};

}  // namespace bass
