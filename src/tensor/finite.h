// Whether stored weights are numbers at all: one that is not makes every logit NaN.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace bass {

/// Whether all of `len` elements are finite; of quantised ones, whether the scales of their blocks are. row: no
/// alignment; len: a multiple of the block length.
bool is_finite_row(DType type, const void* row, int64_t len);

}  // namespace bass
