#include "io/gguf_format.h"

#include <fmt/format.h>

namespace bass::gguf_format {

size_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::string type_name(GgufType type) {
  constexpr std::string_view kNames[] = {"U8",   "I8",     "U16",   "I16", "U32", "I32", "F32",
                                         "bool", "string", "array", "U64", "I64", "F64"};
  const auto number = static_cast<uint32_t>(type);
  if (number >= std::size(kNames)) return fmt::format("type {}", number);
  return std::string(kNames[number]);
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMaxLen = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kMaxLen)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + (text.size() > kMaxLen ? "...'" : "'");
}

GgufValue load_scalar(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::kU8:
      return uint64_t{load<uint8_t>(from)};
    case GgufType::kI8:
      return int64_t{load<int8_t>(from)};
    case GgufType::kU16:
      return uint64_t{load<uint16_t>(from)};
    case GgufType::kI16:
      return int64_t{load<int16_t>(from)};
    case GgufType::kU32:
      return uint64_t{load<uint32_t>(from)};
    case GgufType::kI32:
      return int64_t{load<int32_t>(from)};
    case GgufType::kF32:
      return double{load<float>(from)};
    case GgufType::kBool:
      return load<uint8_t>(from) != 0;
    case GgufType::kU64:
      return load<uint64_t>(from);
    case GgufType::kI64:
      return load<int64_t>(from);
    case GgufType::kF64:
      return load<double>(from);
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return std::string_view{};
}

}  // namespace bass::gguf_format
