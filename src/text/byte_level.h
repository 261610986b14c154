// The reversible map of GPT-2's byte-level BPE: token texts spell bytes as printable characters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bass {

/// Printable bytes stand for themselves (as Latin-1 characters); the others, in ascending order, for U+0100 onwards.
class ByteLevelMap {
 public:
  ByteLevelMap();

  /// The character that spells this byte, in UTF-8.
  [[nodiscard]] std::string spell(uint8_t byte) const;

  /// The bytes that a token's text spells; none if it contains a character that spells no byte (or invalid UTF-8).
  [[nodiscard]] std::optional<std::string> to_bytes(std::string_view token_text) const;

 private:
  static constexpr int kNCodePoints = 256 + 68;  // 68 bytes are not printable
  std::array<char32_t, 256> code_point_of_byte_{};
  std::array<int16_t, kNCodePoints> byte_of_code_point_{};  // -1: none
};

}  // namespace bass
