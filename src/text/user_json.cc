#include "text/user_json.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

Status not_valid(size_t byte) { return invalid_argument(fmt::format("not valid JSON (at byte {})", byte)); }

/// Makes a value of what the parser reads. nlohmann's own way takes any depth, keeps one of several values of a key
/// without a word, and takes time that grows with the square of an object's keys, and with a callback of an array's
/// elements.
class JsonBuilder {  // NOLINT(bugprone-exception-escape): the library's values move without, and do not say so
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  // The parser's events; false ends it.

  bool null() { return put(nullptr) != nullptr; }
  bool boolean(bool value) { return put(value) != nullptr; }
  bool number_integer(number_integer_t value) { return put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) { return put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& /*text*/) { return put(value) != nullptr; }
  bool string(string_t& value) { return put(std::move(value)) != nullptr; }
  bool binary(binary_t& /*value*/) { return false; }  // is not in texts

  bool start_object(size_t /*n*/) { return open(Json::value_t::object); }
  bool start_array(size_t /*n*/) { return open(Json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(string_t& key) {
    Level& level = open_.back();
    if (!level.keys.insert(key).second) {
      status_ = invalid_argument(fmt::format("{}: is there twice", Json(key).dump()));
      return false;
    }
    level.key = std::move(key);
    return true;
  }

  bool parse_error(size_t byte, const std::string& /*token*/, const Json::exception& error) {
    constexpr int kNumberTooLarge = 406;
    status_ = error.id == kNumberTooLarge ? invalid_argument("holds a number that is too large") : not_valid(byte);
    if (std::string_view(error.what()).find("surrogate") != std::string_view::npos)
      status_ = invalid_argument(fmt::format("holds half of a character, an unpaired surrogate (at byte {})", byte));
    return false;
  }

  [[nodiscard]] const Status& status() const { return status_; }
  Json take() { return std::move(root_); }

 private:
  /// An array or object that is not closed yet.
  struct Level {
    Json* value;
    std::set<std::string> keys;
    std::string key;  // of the value that comes next
  };

  bool open(Json::value_t type) {
    if (open_.size() >= size_t{kMaxJsonDepth}) {
      status_ = invalid_argument(fmt::format("nested deeper than {} levels; make it flatter", kMaxJsonDepth));
      return false;
    }
    open_.push_back({put(Json(type)), {}, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  /// Where the value is now; valid until its parent gets another one.
  Json* put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = open_.back();
    if (level.value->is_array()) return &level.value->get_ref<Json::array_t&>().emplace_back(std::move(value));
    // An ordered map is a vector whose own ways in look for the key, which is known to be new.
    using Pairs = Json::object_t::Container;
    return &static_cast<Pairs&>(level.value->get_ref<Json::object_t&>())
                .emplace_back(std::move(level.key), std::move(value))
                .second;
  }

  Json root_;
  std::vector<Level> open_;
  Status status_;
};

}  // namespace

Result<Json> parse_user_json(std::string_view text) {
  if (const size_t at = text.find('\0'); at != text.npos) return not_valid(at);  // the parser would take it for the end
  JsonBuilder builder;
  Json::sax_parse(text, &builder);
  BASS_RETURN_IF_ERROR(builder.status());
  return builder.take();
}

const nlohmann::ordered_json& value_or_null(const nlohmann::ordered_json& object, const char* key) {
  static const nlohmann::ordered_json kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string with_escaped_line_ends(std::string json) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLineEnds{
      {{"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}}};
  std::string escaped;
  size_t n_taken = 0;
  for (size_t at = 0; (at = json.find_first_of("\xC2\xE2", at)) != json.npos;) {
    const std::string_view rest = std::string_view(json).substr(at);
    const auto* const found =
        std::ranges::find_if(kLineEnds, [&](const auto& line_end) { return rest.starts_with(line_end.first); });
    if (found == kLineEnds.end()) {
      ++at;
      continue;
    }
    escaped.append(json, n_taken, at - n_taken).append(found->second);
    n_taken = at += found->first.size();
  }
  if (n_taken == 0) return json;
  return escaped.append(json, n_taken);
}

std::string json_line(const Json& json) { return json_text(json) + "\n"; }

}  // namespace bass
