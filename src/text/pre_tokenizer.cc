#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/check.h"
#include "text/utf8.h"

namespace bass {
namespace {

// Contents of character classes. The reference (Hugging Face tokenizers) follows Unicode 16 in its expressions, and
// PCRE2 the Unicode of its own version, 14 in Debian 12: what came after 14 is spelled out, so that the same text gives
// the same tokens wherever BASS was built.
constexpr std::string_view kLetter =
    R"(\p{L}\x{1c89}\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85})"
    R"(\x{10ec2}-\x{10ec4}\x{1123f}\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1})"
    R"(\x{113d3}\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446})"
    R"(\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a})"
    R"(\x{1e030}-\x{1e06d}\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d})"
    R"(\x{31350}-\x{323af})";
constexpr std::string_view kNumber =
    R"(\p{N}\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59}\x{16130}-\x{16139})"
    R"(\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";
// Its digit splitter knows Unicode 17's numbers too.
constexpr std::string_view kNewerNumber = R"(\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6})";
// Unicode's White_Space. PCRE2's \s also has U+180E.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

constexpr std::string_view kContractions = "'s|'t|'re|'ve|'m|'ll|'d";

/// GPT-2's expression: contractions, words, numbers and the rest, each with one space before it; of several spaces the
/// last one goes with what follows.
std::string gpt2_pattern() {
  return fmt::format(R"({0}| ?[{1}]+| ?[{2}]+| ?[^{3}{1}{2}]+|[{3}]+(?![^{3}])|[{3}]+)", kContractions, kLetter,
                     kNumber, kSpace);
}

/// Every digit is cut out first, then GPT-2's expression runs on what lies between. As one expression: a digit ends a
/// run of spaces as the end of the text does.
std::string smollm_pattern() {
  const std::string number = fmt::format("{}{}", kNumber, kNewerNumber);
  return fmt::format(R"([{2}]|{0}| ?[{1}]+| ?[^{3}{1}{2}]+|[{3}]+(?![^{3}{2}])|[{3}]+)", kContractions, kLetter, number,
                     kSpace);
}

std::optional<std::string> find_pattern(std::string_view rules) {
  if (rules == "smollm") return smollm_pattern();
  if (rules == "gpt-2") return gpt2_pattern();
  return std::nullopt;
}

std::string pcre2_error(int code) {
  PCRE2_UCHAR8 message[256] = {};
  pcre2_get_error_message_8(code, message, sizeof(message));
  return reinterpret_cast<const char*>(message);
}

/// `text`, with each byte of invalid sequences replaced by a control character: one that no rule tells from other
/// characters that are neither letter, number nor space, and that is as long as what it replaces.
std::string mask_invalid(std::string_view text, size_t first_invalid) {
  std::string masked(text);
  for (size_t at = first_invalid; at < text.size();) {
    const Utf8Char c = first_utf8_char(text.substr(at));
    if (!c.valid) masked.replace(at, c.n_bytes, c.n_bytes, '\x01');
    at += c.n_bytes;
  }
  return masked;
}

}  // namespace

Result<PreTokenizer> PreTokenizer::create(std::string_view rules) {
  const std::optional<std::string> pattern = find_pattern(rules);
  if (!pattern.has_value()) {
    // The name comes from a file and must not steer a terminal.
    std::string name(rules.substr(0, 80));
    std::ranges::replace_if(
        name, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    return invalid_file(fmt::format("the pre-tokenizer '{}' is unknown; BASS knows: smollm, gpt-2", name));
  }
  int error = 0;
  PCRE2_SIZE error_at = 0;
  pcre2_code_8* code = pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern->data()), pattern->size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &error_at, nullptr);
  if (code == nullptr) {
    return internal_error(fmt::format("pre-tokenizer {}: {} at {}", rules, pcre2_error(error), error_at));
  }
  std::shared_ptr<const pcre2_code_8> owner(code, [](pcre2_code_8* p) { pcre2_code_free_8(p); });
  pcre2_jit_compile_8(code, PCRE2_JIT_COMPLETE);  // where there is no JIT, matching is interpreted: slower, the same
  return PreTokenizer(std::move(owner));
}

Result<std::vector<uint32_t>> PreTokenizer::split(std::string_view text) const {
  std::string masked;
  if (const std::optional<size_t> invalid = find_invalid_utf8(text); invalid.has_value()) {
    masked = mask_invalid(text, *invalid);
    text = masked;
  }
  const std::unique_ptr<pcre2_match_data_8, decltype(&pcre2_match_data_free_8)> match(
      pcre2_match_data_create_8(1, nullptr), &pcre2_match_data_free_8);
  if (match == nullptr) return resource_exhausted("no memory left to tokenize");
  std::vector<uint32_t> ends;
  for (size_t at = 0; at < text.size();) {
    // The text was checked above; checking it in each call would take quadratic time.
    const int n_groups = pcre2_match_8(pattern_.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), at,
                                       PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (n_groups < 0) {
      return internal_error(fmt::format("the pre-tokenizer failed at byte {}: {}", at, pcre2_error(n_groups)));
    }
    const size_t end = pcre2_get_ovector_pointer_8(match.get())[1];
    BASS_CHECK(end > at);  // each rule takes at least one character
    ends.push_back(static_cast<uint32_t>(end));
    at = end;
  }
  return ends;
}

}  // namespace bass
