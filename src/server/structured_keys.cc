#include "server/structured_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "server/api_keys.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;
using Found = std::optional<CallKey>;

constexpr std::string_view kObject = "structured_outputs";
constexpr std::string_view kGuided = "guided_";
// How it is done there.
constexpr std::array<std::string_view, 4> kSwitches{"json_object", "disable_fallback", "disable_any_whitespace",
                                                    "disable_additional_properties"};

Result<Found> from_choices(const std::string& key, const Json& value) {
  std::vector<std::string> texts;
  bool is_right = value.is_array() && !value.empty();
  for (const Json& text : value) {
    is_right = is_right && text.is_string() && !text.get_ref<const std::string&>().empty();
    if (is_right) texts.push_back(text.get<std::string>());
  }
  if (!is_right)
    return invalid_argument(
        fmt::format("\"{}\" {}: must be a list of texts, one of which is the answer", key, shown(value)));
  return Found({"regex", pattern_of_texts(texts)});
}

Result<Found> from_one(const std::string& key, const std::string& kind, const Json& value) {
  if (kind == "json") return Found({"json_schema", value});
  if (kind == "regex") return Found({"regex", value});
  if (kind == "choice") return from_choices(key, value);
  if (kind == "json_object" && value == true) return Found({"json_schema", {{"type", "object"}}});
  if (value.is_boolean() && std::ranges::find(kSwitches, kind) != kSwitches.end()) return Found();
  return invalid_argument(fmt::format(
      "\"{}\": \"{}\" is not supported here, but \"json\", \"regex\", \"choice\" and \"json_object\"", key, kind));
}

}  // namespace

bool is_structured_key(const std::string& key) { return key == kObject || key.starts_with(kGuided); }

Result<std::optional<CallKey>> structured_key(const std::string& key, const Json& value) {
  if (key == "guided_decoding_backend") return Found();
  if (key.starts_with(kGuided)) return from_one(key, key.substr(kGuided.size()), value);
  if (!value.is_object())
    return invalid_argument("\"structured_outputs\": must be an object like {\"choice\": [\"yes\", \"no\"]}");
  Found found;
  for (const auto& [kind, one] : value.items()) {
    if (one.is_null()) continue;
    BASS_ASSIGN_OR_RETURN(Found read, from_one(key, kind, one));
    if (read && found)
      return invalid_argument("\"structured_outputs\": an answer fits one thing; leave the others out");
    if (read) found = std::move(read);
  }
  return found;
}

std::string pattern_of_texts(const std::vector<std::string>& texts) {
  std::string pattern;
  for (const std::string& text : texts) {
    pattern += pattern.empty() ? "(" : "|";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte == 0x7F) {
        pattern += fmt::format("\\x{:02x}", byte);
      } else {
        if (std::ispunct(byte) != 0) pattern += '\\';
        pattern += c;
      }
    }
  }
  return pattern + ")";
}

}  // namespace bass
