// Whether the system finds memory before it is touched: Linux before 5.14 does not, nor do some sandboxes.
#pragma once

#include <cstddef>
#include <span>

#include "base/aligned_buffer.h"
#include "base/populate.h"

namespace bass::testing {

inline bool can_populate() {
  const AlignedBuffer page(1);
  const std::span<std::byte> memory(page.data(), 1);
  return populate(memory, 1).ok() && absent_bytes(memory) == 0;
}

}  // namespace bass::testing
