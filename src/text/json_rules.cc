#include "text/json_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "text/named_rules.h"
#include "text/regex.h"
#include "text/tokenizer_text.h"
#include "text/utf8.h"

namespace bass {
namespace {

constexpr size_t kMaxContentBytes = 64;  // of what is put into a text, possibly at each of its characters
constexpr size_t kMaxRuleSteps = 64;
/// A pattern: {"String": text} or {"Regex": expression}.
Status read_pattern(const JsonView& json, std::string& pattern, bool& is_literal) {
  BASS_ASSIGN_OR_RETURN(const JsonView view, json.get("pattern"));
  is_literal = view.has("String");
  BASS_ASSIGN_OR_RETURN(pattern, view.get_string(is_literal ? "String" : "Regex"));
  return ok_status();
}

Result<SplitBehavior> read_behavior(const JsonView& json, std::string_view fallback) {
  BASS_ASSIGN_OR_RETURN(const std::string name, json.get_string_or("behavior", fallback));
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return json.error(fmt::format("the behavior '{}' is unknown", printable(name)));
}

Status unknown_type(const JsonView& json, std::string_view type) {
  return json.error(fmt::format("the type '{}' is not supported", printable(type)));
}

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// Empty if it is no base64.
std::string from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) return "";
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out += static_cast<char>(bits >> n_bits & 0xFFu);
  }
  return out;
}

Status fill_normalize_step(const JsonView& json, std::string_view type, NormalizeStep& step) {
  using Kind = NormalizeStep::Kind;
  constexpr std::pair<std::string_view, Kind> kPlain[] = {{"NFC", Kind::kNfc},   {"NFD", Kind::kNfd},
                                                          {"NFKC", Kind::kNfkc}, {"NFKD", Kind::kNfkd},
                                                          {"Nmt", Kind::kNmt},   {"Lowercase", Kind::kLowercase}};
  const auto* const plain = std::ranges::find(kPlain, type, &std::pair<std::string_view, Kind>::first);
  if (plain != std::end(kPlain)) {
    step.kind = plain->second;
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    BASS_ASSIGN_OR_RETURN(step.strips_left, json.get_bool_or("strip_left", true));
    BASS_ASSIGN_OR_RETURN(step.strips_right, json.get_bool_or("strip_right", true));
  } else if (type == "Prepend") {
    step.kind = Kind::kPrepend;
    BASS_ASSIGN_OR_RETURN(step.content, json.get_string("prepend"));
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    BASS_RETURN_IF_ERROR(read_pattern(json, step.pattern, step.is_literal));
    BASS_ASSIGN_OR_RETURN(step.content, json.get_string("content"));
  } else if (type == "Precompiled") {
    step.kind = Kind::kCharsmap;
    BASS_ASSIGN_OR_RETURN(const std::string map, json.get_string_or("precompiled_charsmap", ""));
    step.content = from_base64(map);
    if (!map.empty() && step.content.empty()) return json.error("precompiled_charsmap is no base64");
    return ok_status();
  } else {
    return unknown_type(json, type);
  }
  return step.content.size() <= kMaxContentBytes ? ok_status() : json.error("what it puts in is too long");
}

Status fill_metaspace(const JsonView& json, SplitStep& step) {
  step.kind = SplitStep::Kind::kMetaspace;
  BASS_ASSIGN_OR_RETURN(step.pattern, json.get_string_or("replacement", kMetaSpace));
  if (step.pattern.empty() || first_utf8_char(step.pattern).n_bytes != step.pattern.size()) {
    return json.error("the replacement is not one character");
  }
  BASS_ASSIGN_OR_RETURN(const bool adds, json.get_bool_or("add_prefix_space", true));
  BASS_ASSIGN_OR_RETURN(const std::string scheme, json.get_string_or("prepend_scheme", adds ? "always" : "never"));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return json.error(fmt::format("the prepend_scheme '{}' is unknown", printable(scheme)));
  }
  step.prefix = scheme == "always"  ? SpacePrefix::kAlways
                : scheme == "first" ? SpacePrefix::kFirst
                                    : SpacePrefix::kNever;
  BASS_ASSIGN_OR_RETURN(step.is_split, json.get_bool_or("split", true));
  return ok_status();
}

Status add_byte_level(const JsonView& json, std::vector<SplitStep>& steps) {
  BASS_ASSIGN_OR_RETURN(const bool has_prefix, json.get_bool_or("add_prefix_space", true));
  BASS_ASSIGN_OR_RETURN(const bool uses_regex, json.get_bool_or("use_regex", true));
  if (has_prefix) steps.push_back({.kind = SplitStep::Kind::kPrefix, .prefix = SpacePrefix::kAlways});
  if (uses_regex) steps.push_back({.pattern = std::string(gpt2_pattern())});
  steps.push_back({.kind = SplitStep::Kind::kByteLevel});
  return ok_status();
}

/// Calls `function` for the parts of a Sequence (its key is "normalizers", "decoders" and so on), or for the thing
/// itself.
template <class F>
Status for_each_part(const JsonView& json, std::string_view parts_key, const F& function) {
  BASS_ASSIGN_OR_RETURN(const std::string type, json.get_string("type"));
  if (type != "Sequence") return function(json, type);
  BASS_ASSIGN_OR_RETURN(const std::vector<JsonView> parts, json.get_array(parts_key));
  for (const JsonView& part : parts) BASS_RETURN_IF_ERROR(for_each_part(part, parts_key, function));
  return ok_status();
}

/// The ids and texts of the template's special tokens.
Status read_template(const JsonView& json, TemplateTokens& out) {
  BASS_ASSIGN_OR_RETURN(const std::vector<JsonView> pieces, json.get_array("single"));
  bool is_after_text = false;
  for (const JsonView& piece : pieces) {
    if (piece.has("Sequence")) {
      is_after_text = true;
      continue;
    }
    BASS_ASSIGN_OR_RETURN(const JsonView special, piece.get("SpecialToken"));
    std::string& text = is_after_text ? out.end : out.begin;
    if (!text.empty()) return piece.error("more than one special token before or after the text is not supported");
    BASS_ASSIGN_OR_RETURN(text, special.get_string("id"));
  }
  return ok_status();
}

/// [text, id] of "sep" or "cls".
Result<std::string> first_string(const JsonView& json, std::string_view key) {
  BASS_ASSIGN_OR_RETURN(const std::vector<JsonView> pair, json.get_array(key));
  if (pair.empty() || !pair[0].value().is_string()) return json.error(fmt::format("'{}' is no [text, id]", key));
  return pair[0].value().get<std::string>();
}

Status read_decoder_part(const JsonView& part, std::string_view type, DecoderRules& rules) {
  if (type == "ByteLevel") {
    rules.is_byte_level = true;
  } else if (type == "Metaspace") {
    SplitStep step;
    BASS_RETURN_IF_ERROR(fill_metaspace(part, step));
    if (step.pattern != kMetaSpace) return part.error("a replacement other than U+2581 is not supported");
    if (step.prefix != SpacePrefix::kNever) rules.first_space = FirstSpace::kStripFirstToken;
  } else if (type == "Replace") {
    NormalizeStep step;
    BASS_RETURN_IF_ERROR(fill_normalize_step(part, type, step));
    const bool is_known = step.is_literal && step.pattern == kMetaSpace && step.content == " ";
    if (!is_known) return part.error("a decoder that replaces anything but U+2581 by a space is not supported");
  } else if (type == "Strip") {
    BASS_ASSIGN_OR_RETURN(const std::string content, part.get_string("content"));
    BASS_ASSIGN_OR_RETURN(const int64_t start, part.get_int("start"));
    BASS_ASSIGN_OR_RETURN(const int64_t stop, part.get_int("stop"));
    if (content != " " || start != 1 || stop != 0) return part.error("only one space at the start can be stripped");
    rules.first_space = FirstSpace::kStripOne;
  } else if (type != "ByteFallback" && type != "Fuse") {
    return unknown_type(part, type);
  }
  return ok_status();
}

Status read_processor_part(const JsonView& part, std::string_view type, TemplateTokens& tokens) {
  if (type == "TemplateProcessing") return read_template(part, tokens);
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    BASS_ASSIGN_OR_RETURN(tokens.begin, first_string(part, "cls"));
    BASS_ASSIGN_OR_RETURN(tokens.end, first_string(part, "sep"));
    return ok_status();
  }
  return type == "ByteLevel" ? ok_status() : unknown_type(part, type);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 80));
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

bool JsonView::has(std::string_view key) const {
  if (!value_->is_object()) return false;
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

Status JsonView::error(std::string_view what) const { return invalid_file(fmt::format("{}: {}", where_, what)); }

Result<JsonView> JsonView::get(std::string_view key) const {
  if (!has(key)) return error(fmt::format("'{}' is missing", key));
  return JsonView(*value_->find(key), where_.empty() ? std::string(key) : fmt::format("{}.{}", where_, key));
}

Result<std::string> JsonView::get_string(std::string_view key) const {
  BASS_ASSIGN_OR_RETURN(const JsonView member, get(key));
  if (!member.value().is_string()) return member.error("need a string");
  return member.value().get<std::string>();
}

Result<std::string> JsonView::get_string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : std::string(fallback);
}

Result<bool> JsonView::get_bool_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  BASS_ASSIGN_OR_RETURN(const JsonView member, get(key));
  if (!member.value().is_boolean()) return member.error("need true or false");
  return member.value().get<bool>();
}

Result<int64_t> JsonView::get_int(std::string_view key) const {
  BASS_ASSIGN_OR_RETURN(const JsonView member, get(key));
  if (!member.value().is_number_integer()) return member.error("need an integer");
  return member.value().get<int64_t>();
}

Result<std::vector<JsonView>> JsonView::get_array(std::string_view key) const {
  BASS_ASSIGN_OR_RETURN(const JsonView member, get(key));
  if (!member.value().is_array()) return member.error("need an array");
  std::vector<JsonView> elements;
  for (const nlohmann::json& element : member.value()) {
    elements.emplace_back(element, fmt::format("{}[{}]", member.where_, elements.size()));
  }
  return elements;
}

Status add_normalizer(const JsonView& json, std::vector<NormalizeStep>& steps) {
  return for_each_part(json, "normalizers", [&](const JsonView& part, std::string_view type) {
    NormalizeStep step;
    BASS_RETURN_IF_ERROR(fill_normalize_step(part, type, step));
    steps.push_back(std::move(step));
    return steps.size() <= kMaxRuleSteps ? ok_status() : part.error("too many steps");
  });
}

Status add_pre_tokenizer(const JsonView& json, std::vector<SplitStep>& steps) {
  return for_each_part(json, "pretokenizers", [&](const JsonView& part, std::string_view type) -> Status {
    SplitStep step;
    if (type == "ByteLevel") return add_byte_level(part, steps);
    if (type == "Metaspace") {
      BASS_RETURN_IF_ERROR(fill_metaspace(part, step));
    } else if (type == "Split") {
      BASS_RETURN_IF_ERROR(read_pattern(part, step.pattern, step.is_literal));
      BASS_ASSIGN_OR_RETURN(step.behavior, read_behavior(part, ""));
      BASS_ASSIGN_OR_RETURN(step.is_inverted, part.get_bool_or("invert", false));
    } else if (type == "Digits") {
      step.pattern = digit_pattern();
      BASS_ASSIGN_OR_RETURN(const bool is_individual, part.get_bool_or("individual_digits", false));
      step.behavior = is_individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
    } else if (type == "Punctuation") {
      step.pattern = punctuation_pattern();
      BASS_ASSIGN_OR_RETURN(step.behavior, read_behavior(part, "Isolated"));
    } else if (type == "Whitespace" || type == "WhitespaceSplit") {
      step.pattern = type == "Whitespace" ? R"(\w+|[^\w\s]+)" : R"(\s)";
      step.behavior = SplitBehavior::kRemoved;
      step.is_inverted = type == "Whitespace";
    } else {
      return unknown_type(part, type);
    }
    steps.push_back(std::move(step));
    return steps.size() <= kMaxRuleSteps ? ok_status() : part.error("too many steps");
  });
}

Result<DecoderRules> read_decoder(const JsonView& json) {
  DecoderRules rules;
  BASS_RETURN_IF_ERROR(for_each_part(json, "decoders", [&](const JsonView& part, std::string_view type) {
    return read_decoder_part(part, type, rules);
  }));
  return rules;
}

Result<TemplateTokens> read_post_processor(const JsonView& json) {
  TemplateTokens tokens;
  BASS_RETURN_IF_ERROR(for_each_part(json, "processors", [&](const JsonView& part, std::string_view type) {
    return read_processor_part(part, type, tokens);
  }));
  return tokens;
}

}  // namespace bass
