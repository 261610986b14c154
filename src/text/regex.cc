#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/unicode_classes.h"

namespace bass {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
// A tokenizer's own expressions take a few steps a character. These bounds end what a hostile file brings within a
// second.
constexpr uint32_t kMaxMatchSteps = 20'000'000;
constexpr uint32_t kMaxHeapKib = 32 << 10;

std::string pcre2_error(int code) {
  std::array<PCRE2_UCHAR8, 256> message{};
  pcre2_get_error_message_8(code, message.data(), message.size());
  return reinterpret_cast<const char*>(message.data());
}

Status unsupported(std::string_view what) {
  return invalid_file(fmt::format("a regular expression uses {}, which BASS does not support", what));
}

/// Writes an expression anew, class by class.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  Result<std::string> run() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\\') {
        BASS_RETURN_IF_ERROR(escape(/*is_in_class=*/false));
      } else if (c == '[') {
        BASS_RETURN_IF_ERROR(character_class());
      } else {
        take(1);
      }
    }
    return std::move(out_);
  }

 private:
  void take(size_t n_bytes) {
    out_ += rest_.substr(0, n_bytes);
    rest_.remove_prefix(std::min(n_bytes, rest_.size()));
  }
  void put_class(std::string_view contents, bool is_negated, bool is_in_class) {
    if (is_in_class) {
      out_ += contents;
    } else {
      out_ += fmt::format("[{}{}]", is_negated ? "^" : "", contents);
    }
  }

  /// A property by its name; what has no newer characters to add is left to PCRE2.
  Status property(bool is_in_class) {
    const bool is_negated = rest_[1] == 'P';
    size_t n_bytes = 3;
    std::string_view name = rest_.substr(2, 1);
    if (name == "{") {
      const size_t end = rest_.find('}');
      if (end == rest_.npos || end > 40) return invalid_file("a regular expression has a broken \\p{...}");
      name = rest_.substr(3, end - 3);
      n_bytes = end + 1;
    }
    const std::optional<std::string_view> contents = find_unicode_class(name);
    if (!contents.has_value() || (is_negated && is_in_class)) {
      take(n_bytes);
      return ok_status();
    }
    rest_.remove_prefix(n_bytes);
    put_class(*contents, is_negated, is_in_class);
    return ok_status();
  }

  Status escape(bool is_in_class) {
    if (rest_.size() < 2) return invalid_file("a regular expression ends with a backslash");
    const char c = rest_[1];
    if (c == 'p' || c == 'P') return property(is_in_class);
    const std::string_view name = c == 's' || c == 'S' ? "space" : c == 'd' || c == 'D' ? "Nd" : "word";
    const bool is_class = std::string_view("sSdDwW").find(c) != std::string_view::npos;
    const bool is_negated = c == 'S' || c == 'D' || c == 'W';
    if (!is_class || (is_negated && is_in_class)) {
      if (c == 'h' || c == 'H' || c == 'g' || c == 'k') return unsupported(fmt::format("\\{}", c));
      take(2);
      return ok_status();
    }
    rest_.remove_prefix(2);
    put_class(*find_unicode_class(name), is_negated, is_in_class);
    return ok_status();
  }

  /// Classes within a class are a union: their brackets go.
  Status character_class() {
    int depth = 0;
    do {
      const char c = rest_.front();
      if (c == '[') {
        if (depth > 0 && (rest_.starts_with("[^") || rest_.starts_with("[:"))) return unsupported("nested classes");
        if (depth == 0) out_ += '[';
        rest_.remove_prefix(1);
        if (depth == 0 && rest_.starts_with('^')) take(1);
        ++depth;
        if (rest_.starts_with(']')) return unsupported("a class that begins with ']'");
      } else if (c == ']') {
        if (--depth == 0) out_ += ']';
        rest_.remove_prefix(1);
      } else if (c == '\\') {
        BASS_RETURN_IF_ERROR(escape(/*is_in_class=*/true));
      } else if (rest_.starts_with("&&")) {
        return unsupported("the intersection of classes");
      } else {
        take(1);
      }
    } while (depth > 0 && !rest_.empty());
    return depth == 0 ? ok_status() : invalid_file("a regular expression has a class without an end");
  }

  std::string_view rest_;
  std::string out_;
};

std::string quote(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\^$.[]|()?*+{}-#&~ )").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string_view space_class() { return *find_unicode_class("space"); }

std::string digit_pattern() { return fmt::format("[{}{}]", *find_unicode_class("N"), kNewerNumber); }

std::string punctuation_pattern() {
  return fmt::format("(?![{}])[{}{}]", kNoPunctuation, *find_unicode_class("P"), kMorePunctuation);
}

Result<std::string> translate_regex(std::string_view pattern) {
  // If a run of spaces has a match, it has one at its beginning: without the look behind, a run of n spaces that has
  // none would take n^2 steps.
  if (pattern == R"(\s+$)") return fmt::format("(?<![{0}])[{0}]+$", space_class());
  return Translator(pattern).run();
}

Result<Regex> Regex::compile(std::string_view pattern, bool is_literal) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid_file(
        fmt::format("a regular expression has {} bytes, need at most {}", pattern.size(), kMaxPatternBytes));
  }
  std::string translated = quote(pattern);
  if (!is_literal) {
    BASS_ASSIGN_OR_RETURN(translated, translate_regex(pattern));
  }
  int error = 0;
  PCRE2_SIZE error_at = 0;
  const std::unique_ptr<pcre2_compile_context_8, decltype(&pcre2_compile_context_free_8)> context(
      pcre2_compile_context_create_8(nullptr), &pcre2_compile_context_free_8);
  if (context == nullptr) return resource_exhausted("no memory left for a regular expression");
  pcre2_set_parens_nest_limit_8(context.get(), 50);
  pcre2_code_8* code = pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(translated.data()), translated.size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE, &error,
                                       &error_at, context.get());
  if (code == nullptr) return invalid_file(fmt::format("a regular expression is broken: {}", pcre2_error(error)));
  Regex regex;
  regex.code_.reset(code, [](pcre2_code_8* p) { pcre2_code_free_8(p); });
  pcre2_jit_compile_8(code, PCRE2_JIT_COMPLETE);  // where there is no JIT, matching is interpreted: slower, the same
  regex.limits_.reset(pcre2_match_context_create_8(nullptr), pcre2_match_context_free_8);
  if (regex.limits_ == nullptr) return resource_exhausted("no memory left for a regular expression");
  pcre2_set_match_limit_8(regex.limits_.get(), kMaxMatchSteps);
  pcre2_set_heap_limit_8(regex.limits_.get(), kMaxHeapKib);
  return regex;
}

Result<Regex::Scratch> Regex::make_scratch() {
  Scratch scratch(pcre2_match_data_create_8(1, nullptr), &pcre2_match_data_free_8);
  if (scratch == nullptr) return resource_exhausted("no memory left to tokenize");
  return scratch;
}

Result<std::optional<Regex::Match>> Regex::find(std::string_view text, size_t from, const Scratch& scratch) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
  // The text is known to be valid; checking it in each call would take quadratic time.
  uint32_t options = PCRE2_NO_UTF_CHECK;
  int n_groups = pcre2_match_8(code_.get(), subject, text.size(), from, options, scratch.get(), limits_.get());
  if (n_groups == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its stack on the heap
    options |= PCRE2_NO_JIT;
    n_groups = pcre2_match_8(code_.get(), subject, text.size(), from, options, scratch.get(), limits_.get());
  }
  if (n_groups == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  if (n_groups < 0) {
    return invalid_argument(
        fmt::format("the tokenizer's regular expression failed at byte {}: {}", from, pcre2_error(n_groups)));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer_8(scratch.get());
  // \K can put the beginning behind the end; such a match is none.
  if (bounds[0] > bounds[1] || bounds[0] < from) return std::optional<Match>();
  return std::optional<Match>(Match{bounds[0], bounds[1]});
}

}  // namespace bass
