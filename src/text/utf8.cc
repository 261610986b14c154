#include "text/utf8.h"

#include <cstdint>

namespace bass {
namespace {

/// How a character goes on after its first byte.
struct LeadByte {
  size_t n_bytes = 0;                                  ///< 0: no character begins so
  unsigned char second_min = 0x80, second_max = 0xBF;  ///< the second byte; the further ones are 80..BF
};

LeadByte classify(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};  // continuation bytes and overlong forms
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (lead == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {0};
}

}  // namespace

Utf8Char first_utf8_char(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const LeadByte kind = classify(lead);
  if (kind.n_bytes == 1) return {lead, 1, true, false};
  if (kind.n_bytes == 0) return {0, 1, false, false};
  char32_t code_point = lead & (0x7Fu >> kind.n_bytes);
  for (size_t i = 1; i < kind.n_bytes; ++i) {
    if (i == text.size()) return {0, i, false, true};
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool fits = i == 1 ? byte >= kind.second_min && byte <= kind.second_max : (byte & 0xC0u) == 0x80;
    if (!fits) return {0, i, false, false};
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  return {code_point, kind.n_bytes, true, false};
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = first_utf8_char(text.substr(at));
    if (!c.valid) return at;
    at += c.n_bytes;
  }
  return std::nullopt;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = first_utf8_char(text.substr(at));
    out += c.valid ? text.substr(at, c.n_bytes) : kReplacementChar;
    at += c.n_bytes;
  }
  return out;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto byte = [&](uint32_t value) { out += static_cast<char>(value); };
  const auto tail = [&](int shift) { byte(0x80u | ((code_point >> shift) & 0x3Fu)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xC0u | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    byte(0xE0u | code_point >> 12);
    tail(6);
    tail(0);
  } else {
    byte(0xF0u | code_point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace bass
