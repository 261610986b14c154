#include "text/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "text/code_points.h"
#include "text/tokenizer_text.h"
#include "text/utf8.h"

namespace bass {
namespace {

// No character of Unicode grows more when it is normalised; what a hostile file puts in does.
constexpr size_t kMaxGrowth = 18;
constexpr size_t kMaxAddedBytes = 4096;
using NormalizeKind = NormalizeStep::Kind;

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Calls `function(text, is_valid)` for maximal stretches of valid UTF-8 and for what lies between them.
template <class F>
void for_each_valid_stretch(std::string_view text, const F& function) {
  while (!text.empty()) {
    const size_t n_valid = find_invalid_utf8(text).value_or(text.size());
    if (n_valid > 0) function(text.substr(0, n_valid), true);
    text.remove_prefix(n_valid);
    if (text.empty()) break;
    const size_t n_bytes = first_utf8_char(text).n_bytes;
    function(text.substr(0, n_bytes), false);
    text.remove_prefix(n_bytes);
  }
}

/// One of Unicode's normal forms. `text` is valid UTF-8.
void append_normal_form(std::string_view text, utf8proc_option_t options, std::string& out) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t n_bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                static_cast<utf8proc_ssize_t>(text.size()), &mapped, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (n_bytes < 0) {  // no memory: a valid text has no other way to fail
    out += text;
  } else {
    out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(n_bytes));
  }
}

/// Whether a character has no normal form yet in the reference's Unicode, 9: it neither changes nor combines there. All
/// later characters with a normal form or a combining class, as of Unicode 16.
bool is_inert(char32_t c) {
  static constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x7FD, 0x7FD},     {0x897, 0x897},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
      {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},
      {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},
      {0xAB69, 0xAB69},   {0x105C9, 0x105C9}, {0x105E4, 0x105E4}, {0x10781, 0x10785}, {0x10787, 0x107B0},
      {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFC, 0x10EFF},
      {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11383, 0x11385},
      {0x1138E, 0x1138E}, {0x11391, 0x11391}, {0x113C5, 0x113C5}, {0x113C7, 0x113C8}, {0x113CE, 0x113D0},
      {0x113E1, 0x113E2}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11938, 0x11938}, {0x1193D, 0x1193E},
      {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
      {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16121, 0x16129},
      {0x1612F, 0x1612F}, {0x16D68, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1CCD6, 0x1CCF9}, {0x1E030, 0x1E06D},
      {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
      {0x1E5EE, 0x1E5EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
  };
  if (c < kRanges[0].first) return false;
  const auto* const after = std::ranges::upper_bound(kRanges, c, {}, &std::pair<char32_t, char32_t>::first);
  return c <= std::prev(after)->second;
}

/// ASCII characters are in every normal form, and begin a new composition: only the others, each with the ASCII
/// character before it, need work.
std::string normal_form(std::string_view text, int options) {
  std::string out;
  out.reserve(text.size());
  for_each_valid_stretch(text, [&](std::string_view stretch, bool is_valid) {
    if (!is_valid) {
      out += stretch;
      return;
    }
    const auto is_ascii_at = [&](size_t at) { return static_cast<unsigned char>(stretch[at]) < 0x80; };
    const auto put = [&](std::string_view part) {  // cut at the characters that stay as they are
      while (!part.empty()) {
        size_t end = 0, n_bytes = 0;
        for (; end < part.size(); end += n_bytes) {
          const Utf8Char c = first_utf8_char(part.substr(end));
          n_bytes = c.n_bytes;
          if (is_inert(c.code_point)) break;
        }
        if (end > 0) append_normal_form(part.substr(0, end), static_cast<utf8proc_option_t>(options), out);
        if (end == part.size()) break;
        out += part.substr(end, n_bytes);
        part.remove_prefix(end + n_bytes);
      }
    };
    for (size_t at = 0; at < stretch.size();) {
      size_t begin = at;
      while (begin < stretch.size() && is_ascii_at(begin)) ++begin;
      if (begin == stretch.size()) {
        out += stretch.substr(at);
        break;
      }
      size_t end = begin;
      while (end < stretch.size() && !is_ascii_at(end)) ++end;
      if (begin > at) --begin;
      out += stretch.substr(at, begin - at);
      put(stretch.substr(begin, end - begin));
      at = end;
    }
  });
  return out;
}

/// Maps character by character; `function(code point, out)` appends what one becomes.
template <class F>
std::string map_chars(std::string_view text, const F& function) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = first_utf8_char(text);
    if (c.valid) {
      function(c.code_point, out);
    } else {
      out += text.substr(0, c.n_bytes);
    }
    text.remove_prefix(c.n_bytes);
  }
  return out;
}

void append_lowercase(char32_t c, std::string& out) {
  // Cased since Unicode 16 or 17, which the library may be older than.
  static constexpr std::pair<char32_t, char32_t> kNewer[] = {{0x1C89, 0x1C8A}, {0xA7CB, 0x264}, {0xA7CC, 0xA7CD},
                                                             {0xA7DA, 0xA7DB}, {0xA7DC, 0x19B}, {0xA7CE, 0xA7CF},
                                                             {0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D5}};
  if (c == 0x130) {  // the only character whose lower case is two
    out += "i\xCC\x87";
  } else if (c >= 0x10D50 && c <= 0x10D65) {
    append_utf8(c + 0x20, out);
  } else if (c >= 0x16EA0 && c <= 0x16EB8) {
    append_utf8(c + 0x1B, out);
  } else {
    const auto* const newer = std::ranges::find(kNewer, c, &std::pair<char32_t, char32_t>::first);
    const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    append_utf8(newer == std::end(kNewer) ? lower : newer->second, out);
  }
}

/// What the reference's "Nmt" step does.
void append_nmt(char32_t c, std::string& out) {
  const bool is_control =
      (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  if (is_control) return;
  const bool is_space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  append_utf8(is_space ? U' ' : c, out);
}

/// As Hugging Face does: a short grapheme is replaced whole, by the rule of its shortest beginning that has one; else
/// its characters are, one by one.
std::string charsmap_by_grapheme(const Charsmap& charsmap, std::string_view text) {
  constexpr size_t kMaxGraphemeBytes = 5;
  std::string out;
  const auto finish = [&](std::string_view grapheme) {
    if (grapheme.size() <= kMaxGraphemeBytes) {
      if (const auto rule = charsmap.find(grapheme, false); rule.has_value()) {
        out += rule->replacement;
        return;
      }
    }
    while (!grapheme.empty()) {
      const std::string_view c = grapheme.substr(0, first_utf8_char(grapheme).n_bytes);
      const auto rule = charsmap.find(c, false);
      out += rule.has_value() ? rule->replacement : c;
      grapheme.remove_prefix(c.size());
    }
  };
  for_each_valid_stretch(text, [&](std::string_view stretch, bool is_valid) {
    if (!is_valid) {
      out += stretch;
      return;
    }
    utf8proc_int32_t state = 0;
    char32_t before = 0;
    size_t begin = 0;
    for (size_t at = 0; at < stretch.size();) {
      const Utf8Char c = first_utf8_char(stretch.substr(at));
      if (at > 0 && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                                     static_cast<utf8proc_int32_t>(c.code_point), &state)) {
        finish(stretch.substr(begin, at - begin));
        begin = at;
      }
      before = c.code_point;
      at += c.n_bytes;
    }
    finish(stretch.substr(begin));
  });
  return out;
}

/// One step of SentencePiece's normaliser: what `text` begins with, and what that becomes.
std::pair<size_t, std::string_view> sentencepiece_prefix(std::string_view text, const Charsmap& charsmap,
                                                         const ByteTrie* user_defined) {
  if (user_defined != nullptr) {
    if (const size_t n_bytes = user_defined->longest(text).first; n_bytes > 0) {
      return {n_bytes, text.substr(0, n_bytes)};
    }
  }
  if (const auto rule = charsmap.find(text, true); rule.has_value()) return {rule->n_bytes, rule->replacement};
  const Utf8Char c = first_utf8_char(text);
  if (!c.valid) return {1, kReplacementChar};
  return {c.n_bytes, text.substr(0, c.n_bytes)};
}

std::string sentencepiece(std::string_view text, const NormalizeStep& rule, const Charsmap& charsmap,
                          const ByteTrie* user_defined) {
  const bool removes_extra = rule.removes_extra_whitespaces;
  std::string out;
  bool is_after_space = removes_extra;
  // Spaces at the beginning go before anything is put there.
  while (removes_extra && !text.empty()) {
    const auto [n_bytes, becomes] = sentencepiece_prefix(text, charsmap, user_defined);
    if (becomes != " ") break;
    text.remove_prefix(n_bytes);
  }
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 2);
  if (rule.adds_space_prefix) out += kMetaSpace;
  while (!text.empty()) {
    auto [n_bytes, becomes] = sentencepiece_prefix(text, charsmap, user_defined);
    while (is_after_space && becomes.starts_with(' ')) becomes.remove_prefix(1);
    for (const char c : becomes) {
      if (c == ' ') {
        out += kMetaSpace;
      } else {
        out += c;
      }
    }
    if (!becomes.empty()) is_after_space = removes_extra && becomes.ends_with(' ');
    text.remove_prefix(n_bytes);
  }
  while (removes_extra && out.ends_with(kMetaSpace)) out.resize(out.size() - kMetaSpace.size());
  return out;
}

std::string strip(std::string_view text, const NormalizeStep& rule) {
  if (rule.strips_left) text.remove_prefix(n_leading_space_bytes(text));
  if (rule.strips_right) text.remove_suffix(n_trailing_space_bytes(text));
  return std::string(text);
}

Status too_long() { return invalid_argument("the text grows too long when it is normalised; shorten it"); }

Result<std::string> replace(std::string_view text, const NormalizeStep& rule, const Regex& regex) {
  BASS_ASSIGN_OR_RETURN(const Regex::Scratch scratch, Regex::make_scratch());
  std::string out;
  for (size_t at = 0, from = 0; at < text.size();) {
    std::optional<Regex::Match> match;
    if (from <= text.size()) {
      BASS_ASSIGN_OR_RETURN(match, regex.find(text, from, scratch));
    }
    if (!match.has_value()) {
      out += text.substr(at);
      break;
    }
    out += text.substr(at, match->begin - at);
    out += rule.content;
    at = from = match->end;
    if (match->begin == match->end) from += at < text.size() ? first_utf8_char(text.substr(at)).n_bytes : 1;
    if (out.size() > kMaxTextBytes) return too_long();
  }
  return out;
}

std::string replace_literal(std::string_view text, const NormalizeStep& rule) {
  std::string out;
  while (!text.empty()) {
    const size_t at = rule.pattern.empty() ? text.npos : text.find(rule.pattern);
    out += text.substr(0, at);
    if (at == text.npos) break;
    out += rule.content;
    text.remove_prefix(at + rule.pattern.size());
  }
  return out;
}

}  // namespace

Result<Normalizer> Normalizer::create(const std::vector<NormalizeStep>& steps, const ByteTrie* user_defined) {
  Normalizer normalizer;
  normalizer.user_defined_ = user_defined;
  for (const NormalizeStep& rule : steps) {
    Step step{rule, nullptr, {}};
    if (rule.kind == NormalizeKind::kReplace && !rule.is_literal) {
      BASS_ASSIGN_OR_RETURN(Regex regex, Regex::compile(rule.pattern, false));
      step.regex = std::make_unique<Regex>(std::move(regex));
    } else if (rule.kind == NormalizeKind::kCharsmap || rule.kind == NormalizeKind::kSentencePiece) {
      BASS_ASSIGN_OR_RETURN(step.charsmap, Charsmap::parse(rule.content));
      step.rule.content.clear();
    }
    normalizer.steps_.push_back(std::move(step));
  }
  return normalizer;
}

Status Normalizer::apply_step(const Step& step, std::string& text) const {
  const NormalizeStep& rule = step.rule;
  switch (rule.kind) {
    case NormalizeKind::kNfc:
      if (!is_ascii(text)) text = normal_form(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
      break;
    case NormalizeKind::kNfd:
      if (!is_ascii(text)) text = normal_form(text, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
      break;
    case NormalizeKind::kNfkc:
      if (!is_ascii(text)) text = normal_form(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
      break;
    case NormalizeKind::kNfkd:
      if (!is_ascii(text)) text = normal_form(text, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
      break;
    case NormalizeKind::kLowercase:
      text = map_chars(text, append_lowercase);
      break;
    case NormalizeKind::kNmt:
      text = map_chars(text, append_nmt);
      break;
    case NormalizeKind::kStrip:
      text = strip(text, rule);
      break;
    case NormalizeKind::kPrepend:
      if (!text.empty()) text.insert(0, rule.content);
      break;
    case NormalizeKind::kReplace:
      if (rule.is_literal) {
        text = replace_literal(text, rule);
      } else {
        BASS_ASSIGN_OR_RETURN(text, replace(text, rule, *step.regex));
      }
      break;
    case NormalizeKind::kCharsmap:
      text = charsmap_by_grapheme(step.charsmap, text);
      break;
    case NormalizeKind::kSentencePiece:
      text = sentencepiece(text, rule, step.charsmap, user_defined_);
      break;
  }
  return ok_status();
}

Result<std::string> Normalizer::apply(std::string text) const {
  const size_t max_bytes = std::min(kMaxTextBytes, kMaxGrowth * text.size() + kMaxAddedBytes);
  for (const Step& step : steps_) {
    BASS_RETURN_IF_ERROR(apply_step(step, text));
    if (text.size() > max_bytes) return too_long();
  }
  return text;
}

}  // namespace bass
