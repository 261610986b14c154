// Rows of floats in the file's quantised formats.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tensor/dtype.h"

namespace bass {

/// The types that quantise_row makes, finest first.
std::span<const DType> quantisable_types();

/// By its name in any case ("q4_1"); nullopt if it is none of quantisable_types.
std::optional<DType> find_quantisable_type(std::string_view name);

/// One row, with the bits that the `gguf` Python package gives. row: [len], len a multiple of the block's. out: no
/// alignment. False if a value is not finite or too large for the format.
[[nodiscard]] bool quantise_row(DType type, const float* row, int len, void* out);

}  // namespace bass
