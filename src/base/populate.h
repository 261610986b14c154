// Memory that was asked for and not yet touched.
#pragma once

#include <cstddef>

#include "bass/status.h"

namespace bass {

/// Of [data, data + n_bytes), a part of a mapping: how much the system has not found memory for yet.
size_t absent_bytes(const std::byte* data, size_t n_bytes);

/// Has the system find the memory of [data, data + n_bytes), a part of an anonymous mapping, now and with several
/// threads, in place of at its first touch. What it holds stays as it is, so that others may use it meanwhile. Does
/// nothing where the system does not know how (Linux before 5.14). Error (kResourceExhausted): the system has none
/// left.
Status populate(std::byte* data, size_t n_bytes, int n_threads);

}  // namespace bass
