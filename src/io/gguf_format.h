// What the GGUF parser and the GGUF getters share. Internal to src/io.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "io/gguf.h"

namespace bass::gguf_format {

static_assert(std::endian::native == std::endian::little, "GGUF values are read as they lie in the file");

/// Bytes of a scalar; 0 for strings, arrays and numbers that are no type.
size_t scalar_bytes(GgufType type);

/// "U32", "string", ...; "type 77" for a number that is no type.
std::string type_name(GgufType type);

/// Text from a file for a message: cut where it is long, anything but printable ASCII escaped, in quotes.
std::string in_quotes(std::string_view text);

template <class T>
T load(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// The scalar of this type at `from`, which must hold scalar_bytes(type) bytes.
GgufValue load_scalar(GgufType type, const std::byte* from);

}  // namespace bass::gguf_format
