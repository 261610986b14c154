#include "text/byte_level.h"

#include "base/check.h"
#include "text/utf8.h"

namespace bass {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

}  // namespace

ByteLevelMap::ByteLevelMap() {
  byte_of_code_point_.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int code_point = stands_for_itself(byte) ? byte : next++;
    code_point_of_byte_[static_cast<size_t>(byte)] = static_cast<char32_t>(code_point);
    byte_of_code_point_[static_cast<size_t>(code_point)] = static_cast<int16_t>(byte);
  }
  BASS_CHECK(next == kNCodePoints);
}

std::string ByteLevelMap::spell(uint8_t byte) const {
  std::string out;
  append_utf8(code_point_of_byte_[byte], out);
  return out;
}

std::optional<std::string> ByteLevelMap::to_bytes(std::string_view token_text) const {
  std::string bytes;
  while (!token_text.empty()) {
    const Utf8Char c = first_utf8_char(token_text);
    if (!c.valid || c.code_point >= byte_of_code_point_.size()) return std::nullopt;
    const int byte = byte_of_code_point_[c.code_point];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    token_text.remove_prefix(c.n_bytes);
  }
  return bytes;
}

}  // namespace bass
