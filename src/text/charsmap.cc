#include "text/charsmap.h"

#include <bit>
#include <cstring>

namespace bass {
namespace {

// A unit of the trie: bit 31 and the low byte label it, bit 8 says that a text ends here, the upper bits are the
// distance to the children (in steps of 256 if bit 9 is set). A unit that holds a value has it in its low 31 bits.
uint32_t label_of(uint32_t unit) { return unit & 0x800000FFu; }
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }
constexpr size_t kMaxReplacementBytes = 256;  // Unicode's longest has 33
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFu; }

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
  static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");
  Charsmap map;
  if (blob.empty()) return map;
  uint32_t trie_bytes = 0;
  if (blob.size() > sizeof(trie_bytes)) std::memcpy(&trie_bytes, blob.data(), sizeof(trie_bytes));
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes >= blob.size() - sizeof(trie_bytes)) {
    return invalid_file("the precompiled charsmap (normalisation rules) is broken");
  }
  blob.remove_prefix(sizeof(trie_bytes));
  map.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(map.units_.data(), blob.data(), trie_bytes);
  map.replacements_ = blob.substr(trie_bytes);
  return map;
}

std::optional<Charsmap::Rule> Charsmap::find(std::string_view text, bool is_longest) const {
  std::optional<Rule> found;
  if (units_.empty()) return found;
  size_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size() && (is_longest || !found.has_value()); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= units_.size() || label_of(units_[at]) != byte) break;
    const uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (at >= units_.size()) break;
    if (!has_leaf(unit)) continue;
    const uint32_t begin = value_of(units_[at]);
    if (begin >= replacements_.size()) break;
    const std::string_view rest = std::string_view(replacements_).substr(begin, kMaxReplacementBytes);
    const size_t n_bytes = rest.find('\0');
    if (n_bytes == rest.npos) break;
    found = Rule{i + 1, rest.substr(0, n_bytes)};
  }
  return found;
}

}  // namespace bass
