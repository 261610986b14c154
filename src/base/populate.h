// Memory that was asked for and not yet touched.
#pragma once

#include <cstddef>
#include <span>

#include "bass/status.h"

namespace bass {

/// Of `memory`, a part of a mapping: how much the system has not found memory for yet, in whole pages.
size_t absent_bytes(std::span<const std::byte> memory);

/// Has the system find the memory of a part of an anonymous mapping now, with several threads, in place of at its first
/// touch. What it holds stays as it is, so that others may use it meanwhile. Does
/// nothing where the system does not know how (Linux before 5.14). Error (kResourceExhausted): the system has none
/// left.
Status populate(std::span<std::byte> memory, int n_threads);

}  // namespace bass
