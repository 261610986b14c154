// Texts and JSON to option values and back: one overload of `parse` and `show` for each type of field.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "engine/options.h"
#include "text/user_json.h"
#include "text/utf8.h"

namespace bass {
namespace {

template <class T>
bool parse_whole(std::string_view text, T* value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && stop == text.data() + text.size();
}

/// A number of any size; infinite where it is too large for a double. None if it is no number, or NaN.
std::optional<double> parse_any_number(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || stop != text.data() + text.size() || std::isnan(value)) {
    return std::nullopt;
  }
  // out of range: from_chars leaves the value alone
  return error == std::errc::result_out_of_range ? std::strtod(std::string(text).c_str(), nullptr) : value;
}

/// Only digits, with a sign or without: a whole number as it is written, be it ever so large.
bool is_written_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

Status must_be(std::string_view kind, std::string_view range) {
  return invalid_argument(fmt::format("must be {}{}{}", kind, kind.empty() || range.empty() ? "" : " ", range));
}

bool in_range(const Option& option, double value) {
  if (!std::isfinite(value)) return false;
  const bool is_above = option.is_min_excluded ? value > option.min : value >= option.min;
  return is_above && value <= option.max;
}

/// The table's range; of an open one also its end, where that is what was passed.
Status out_of_range(const Option& option, double value) {
  const bool hits_open_end = value > option.max && option.range.starts_with('>');
  return must_be(
      "", hits_open_end ? fmt::format("{} and at most {}", option.range, option.max) : std::string(option.range));
}

/// 2.0 and 1e3 are whole, but not written so.
Status not_whole(const Option& option, std::string_view text) {
  const std::optional<double> number = parse_any_number(text);
  const bool is_whole = number.has_value() && *number == std::trunc(*number);
  return must_be(is_whole ? "a whole number, written without point or exponent," : "a whole number", option.range);
}

template <class T>
Status parse_integer(const Option& option, std::string_view text, T* field) {
  T value{};
  if (!parse_whole(text, &value)) {
    if (!is_written_whole(text)) return not_whole(option, text);
    return out_of_range(option, parse_any_number(text).value_or(0));  // too large for the type
  }
  BASS_RETURN_IF_ERROR(check_number(option, static_cast<double>(value)));
  *field = value;
  return ok_status();
}

template <class T>
Status parse_number(const Option& option, std::string_view text, T* field) {
  const std::optional<double> value = parse_any_number(text);
  if (!value.has_value()) return must_be("a number", option.range);
  BASS_RETURN_IF_ERROR(check_number(option, *value));
  const T rounded = static_cast<T>(*value);
  if (!in_range(option, static_cast<double>(rounded))) return must_be("", option.range);  // float(1e-50) is 0
  *field = rounded;
  return ok_status();
}

template <class T>
struct Choice {
  std::string_view name;
  T value;
};
constexpr std::array<Choice<DrafterChoice>, 4> kDrafters{{{"auto", DrafterChoice::kAuto},
                                                          {"model", DrafterChoice::kModel},
                                                          {"ngram", DrafterChoice::kNgram},
                                                          {"off", DrafterChoice::kOff}}};
constexpr std::array<Choice<std::optional<VerifyRule>>, 4> kVerifyRules{{{"auto", std::nullopt},
                                                                         {"rejection", VerifyRule::kRejection},
                                                                         {"match", VerifyRule::kMatch},
                                                                         {"block", VerifyRule::kBlock}}};
constexpr std::array<Choice<AttentionKind>, 4> kAttentionKinds{{{"fused", AttentionKind::kFused},
                                                                {"split-grouped", AttentionKind::kSplitGrouped},
                                                                {"split", AttentionKind::kSplit},
                                                                {"pad", AttentionKind::kPad}}};
constexpr std::array<Choice<ActivationKind>, 5> kActivationKinds{{{"int8", ActivationKind::kInt8},
                                                                  {"int16", ActivationKind::kInt16},
                                                                  {"bf16", ActivationKind::kBf16},
                                                                  {"w8a8", ActivationKind::kW8A8},
                                                                  {"fp8", ActivationKind::kFp8}}};
constexpr std::array<Choice<KvKind>, 4> kKvKinds{
    {{"int16", KvKind::kInt16}, {"int8", KvKind::kInt8}, {"f16", KvKind::kF16}, {"bf16", KvKind::kBf16}}};

template <class T, size_t N>
Status parse_choice(const std::array<Choice<T>, N>& choices, std::string_view text, T* field) {
  std::string names;
  for (size_t i = 0; i < N; ++i) {
    if (choices[i].name == text) {
      *field = choices[i].value;
      return ok_status();
    }
    names += fmt::format("{}{}", i == 0 ? "" : i + 1 == N ? " or " : ", ", choices[i].name);
  }
  return must_be("", names);
}

template <class T, size_t N>
std::string show_choice(const std::array<Choice<T>, N>& choices, const T& value) {
  for (const Choice<T>& choice : choices) {
    if (choice.value == value) return std::string(choice.name);
  }
  return "";
}

Status parse(const Option& option, std::string_view text, bool* field) {
  if (text != "true" && text != "false") return must_be("", "true or false");
  *field = text == "true";
  return ok_status();
}
Status parse(const Option& option, std::string_view text, int* field) { return parse_integer(option, text, field); }
Status parse(const Option& option, std::string_view text, float* field) { return parse_number(option, text, field); }
Status parse(const Option& option, std::string_view text, std::string* field) {
  if (option.check != nullptr) BASS_RETURN_IF_ERROR(option.check(text));
  *field = text;
  return ok_status();
}
Status parse(const Option& option, std::string_view text, int64_t* field) { return parse_integer(option, text, field); }
Status parse(const Option& option, std::string_view text, uint64_t* field) {
  return parse_integer(option, text, field);
}
Status parse(const Option& option, std::string_view text, double* field) { return parse_number(option, text, field); }
Status parse(const Option& option, std::string_view text, std::vector<std::string>* field) {
  return parse(option, text, &field->emplace_back());
}
Status parse(const Option& option, std::string_view text, std::vector<TokenId>* field) {
  TokenId id = 0;
  if (!parse_whole(text, &id) || id < 0) return must_be("", option.range);
  field->push_back(id);
  return ok_status();
}
Status parse(const Option& option, std::string_view text, std::vector<std::pair<TokenId, float>>* field) {
  const size_t colon = text.find(':');
  TokenId id = 0;
  float bias = 0;
  if (colon == std::string_view::npos || !parse_whole(text.substr(0, colon), &id) || id < 0 ||
      !parse_whole(text.substr(colon + 1), &bias) || !(std::abs(bias) <= kMaxBias)) {
    return must_be("", option.range);
  }
  field->emplace_back(id, bias);
  return ok_status();
}
Status parse(const Option& option, std::string_view text, DrafterChoice* field) {
  return parse_choice(kDrafters, text, field);
}
Status parse(const Option& option, std::string_view text, std::optional<VerifyRule>* field) {
  return parse_choice(kVerifyRules, text, field);
}
Status parse(const Option& option, std::string_view text, AttentionKind* field) {
  return parse_choice(kAttentionKinds, text, field);
}
Status parse(const Option& option, std::string_view text, ActivationKind* field) {
  return parse_choice(kActivationKinds, text, field);
}
Status parse(const Option& option, std::string_view text, KvKind* field) { return parse_choice(kKvKinds, text, field); }
template <class T>
Status parse(const Option& option, std::string_view text, std::optional<T>* field) {
  T value{};
  BASS_RETURN_IF_ERROR(parse(option, text, &value));
  *field = std::move(value);
  return ok_status();
}

std::string show(bool value) { return value ? "on" : "off"; }
std::string show(int value) { return fmt::format("{}", value); }
std::string show(float value) { return fmt::format("{}", value); }
std::string show(const std::string& value) { return value; }
std::string show(DrafterChoice value) { return show_choice(kDrafters, value); }
std::string show(const std::optional<VerifyRule>& value) { return show_choice(kVerifyRules, value); }
std::string show(AttentionKind value) { return show_choice(kAttentionKinds, value); }
std::string show(ActivationKind value) { return show_choice(kActivationKinds, value); }
std::string show(KvKind value) { return show_choice(kKvKinds, value); }
template <class T>
std::string show(const std::optional<T>&) {
  return "";  // such a row says what its absence means
}
template <class T>
std::string show(const std::vector<T>&) {
  return "";
}

nlohmann::json as_json(bool value) { return value; }
nlohmann::json as_json(int value) { return value; }
nlohmann::json as_json(float value) { return value; }
nlohmann::json as_json(const std::string& value) { return value; }
nlohmann::json as_json(const std::vector<std::string>& value) { return value; }
nlohmann::json as_json(const std::vector<TokenId>& value) { return value; }
nlohmann::json as_json(const std::vector<std::pair<TokenId, float>>& value) {
  auto biases = nlohmann::json::object();
  for (const auto& [id, bias] : value) biases[std::to_string(id)] = bias;
  return biases;
}
template <class T>
nlohmann::json as_json(const T& choice) {
  return show(choice);
}
template <class T>
nlohmann::json as_json(const std::optional<T>& value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json(nullptr);
}
nlohmann::json as_json(const std::optional<VerifyRule>& value) { return show(value); }

/// To be read: a row gives a mutable field, and a copy of all options for each is too much for many prompts.
OptionField field_of(const Option& option, const GenerateOptions& options) {
  return option.field(const_cast<GenerateOptions&>(options));
}

/// For messages: long texts are cut, and what could end the line or steer a terminal is replaced.
std::string shown(std::string_view text) {
  constexpr size_t kMaxShown = 60;
  if (text.empty()) return "\"\"";
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (result.size() >= kMaxShown) return result + "...";
    const Utf8Char c = first_utf8_char(text.substr(at));
    const bool is_control = c.code_point < 0x20 || (c.code_point >= 0x7F && c.code_point < 0xA0);
    result += !c.valid || is_control ? kReplacementChar : text.substr(at, c.n_bytes);
    at += c.n_bytes;
  }
  return result;
}

Status named(const Status& status, std::string_view name, std::string_view text) {
  return {status.code(), fmt::format("{} {}: {}", name, shown(text), status.message())};
}

Status set_text(const Option& option, std::string_view text, std::string_view shown_name, GenerateOptions* options) {
  const Status status = std::visit([&](auto* field) { return parse(option, text, field); }, option.field(*options));
  return status.ok() ? status : named(status, shown_name, text);
}

void clear_list(const Option& option, GenerateOptions* options) {
  OptionField field = option.field(*options);
  if (auto** texts = std::get_if<std::vector<std::string>*>(&field)) (*texts)->clear();
  if (auto** ids = std::get_if<std::vector<TokenId>*>(&field)) (*ids)->clear();
  if (auto** biases = std::get_if<std::vector<std::pair<TokenId, float>>*>(&field)) (*biases)->clear();
}

void set_default(const Option& option, GenerateOptions* options) {
  GenerateOptions defaults;
  const auto copy = [&]<class T>(T* field) { *field = *std::get<T*>(option.field(defaults)); };
  std::visit(copy, option.field(*options));
}

/// The texts that the command line would have for this JSON value; none if the type is wrong.
std::optional<std::vector<std::string>> json_texts(OptionKind kind, const nlohmann::ordered_json& value) {
  std::vector<std::string> texts;
  switch (kind) {
    case OptionKind::kFlag:
      if (!value.is_boolean()) return std::nullopt;
      return std::vector<std::string>{value.get<bool>() ? "true" : "false"};
    case OptionKind::kInteger:
    case OptionKind::kNumber:
      if (!value.is_number()) return std::nullopt;
      return std::vector<std::string>{value.dump()};
    case OptionKind::kTextList:
      if (value.is_array()) {
        for (const auto& element : value) {
          if (!element.is_string()) return std::nullopt;
          texts.push_back(element.get<std::string>());
        }
        return texts;
      }
      [[fallthrough]];
    case OptionKind::kText:
      if (!value.is_string()) return std::nullopt;
      return std::vector<std::string>{value.get<std::string>()};
    case OptionKind::kJson:
      if (value.is_string()) return std::vector<std::string>{value.get<std::string>()};
      if (!value.is_structured() && !value.is_boolean()) return std::nullopt;
      return std::vector<std::string>{value.dump()};
    case OptionKind::kTokenList:
      if (!value.is_array()) return std::nullopt;
      for (const auto& id : value) {
        if (!id.is_number()) return std::nullopt;
        texts.push_back(id.dump());
      }
      return texts;
    case OptionKind::kBiasList:
      if (!value.is_object()) return std::nullopt;
      for (const auto& [id, bias] : value.items()) {
        if (!bias.is_number()) return std::nullopt;
        texts.push_back(id + ":" + bias.dump());
      }
      return texts;
  }
  return std::nullopt;
}

std::string_view json_type_name(OptionKind kind) {
  switch (kind) {
    case OptionKind::kFlag:
      return "true or false";
    case OptionKind::kInteger:
      return "a whole number";
    case OptionKind::kNumber:
      return "a number";
    case OptionKind::kText:
      return "a string";
    case OptionKind::kTextList:
      return "a string or a list of strings";
    case OptionKind::kJson:
      return "JSON, or a string that holds it";
    case OptionKind::kTokenList:
      return "a list of token ids";
    case OptionKind::kBiasList:
      return "an object of token ids and numbers, like {\"42\": -1.5}";
  }
  return "";
}

}  // namespace

Status check_number(const Option& option, double value) {
  return in_range(option, value) ? ok_status() : out_of_range(option, value);
}

OptionKind option_kind(const Option& option) {
  if (option.is_json) return OptionKind::kJson;
  GenerateOptions options;
  struct Kinds {
    OptionKind operator()(const bool*) const { return OptionKind::kFlag; }
    OptionKind operator()(const int*) const { return OptionKind::kInteger; }
    OptionKind operator()(const std::optional<int>*) const { return OptionKind::kInteger; }
    OptionKind operator()(const std::optional<int64_t>*) const { return OptionKind::kInteger; }
    OptionKind operator()(const std::optional<uint64_t>*) const { return OptionKind::kInteger; }
    OptionKind operator()(const float*) const { return OptionKind::kNumber; }
    OptionKind operator()(const std::optional<double>*) const { return OptionKind::kNumber; }
    OptionKind operator()(const std::vector<std::string>*) const { return OptionKind::kTextList; }
    OptionKind operator()(const std::vector<TokenId>*) const { return OptionKind::kTokenList; }
    OptionKind operator()(const std::vector<std::pair<TokenId, float>>*) const { return OptionKind::kBiasList; }
    OptionKind operator()(const void*) const { return OptionKind::kText; }  // texts and choices
  };
  return std::visit(Kinds{}, option.field(options));
}

std::string option_flag(const Option& option) {
  if (option.name.size() == 1) return fmt::format("-{}", option.name);
  std::string flag = fmt::format("--{}", option.name);
  for (char& c : flag) c = c == '_' ? '-' : c;
  return flag;
}

std::string option_default(const Option& option) {
  if (!option.unset.empty()) return std::string(option.unset);
  return option_value(option, GenerateOptions{});
}

std::string option_value(const Option& option, const GenerateOptions& options) {
  return std::visit([](const auto* field) { return show(*field); }, field_of(option, options));
}

std::string verify_rule_name(VerifyRule rule) { return show_choice(kVerifyRules, std::optional(rule)); }
std::string kv_type_name(KvKind kind) { return show_choice(kKvKinds, kind); }

nlohmann::json option_json(const Option& option, const GenerateOptions& options) {
  return std::visit([](const auto* field) { return as_json(*field); }, field_of(option, options));
}

Status set_option(const Option& option, std::span<const std::string> texts, GenerateOptions* options) {
  if (option.is_once && texts.size() > 1) {
    const std::string flag = option.short_name == 0 ? option_flag(option) : fmt::format("-{}", option.short_name);
    return invalid_argument(
        fmt::format("{}: is given {} times; give it once (several prompts: a --prompts file of `bass generate`)", flag,
                    texts.size()));
  }
  clear_list(option, options);
  for (const std::string& text : texts) BASS_RETURN_IF_ERROR(set_text(option, text, option_flag(option), options));
  return ok_status();
}

Status set_option_from_json(const Option& option, const nlohmann::ordered_json& value, GenerateOptions* options) {
  if (value.is_null()) {
    set_default(option, options);
    return ok_status();
  }
  const std::string name = fmt::format("\"{}\"", option.name);
  const std::optional<std::vector<std::string>> texts = json_texts(option_kind(option), value);
  if (!texts.has_value()) {
    return named(must_be(json_type_name(option_kind(option)), ""), name, json_text(value));
  }
  clear_list(option, options);
  for (const std::string& text : *texts) BASS_RETURN_IF_ERROR(set_text(option, text, name, options));
  return ok_status();
}

}  // namespace bass
