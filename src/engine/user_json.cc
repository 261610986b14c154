#include "engine/user_json.h"

#include <fmt/format.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;
using ParseEvent = Json::parse_event_t;

/// Watches the parser at work, which itself takes any depth and keeps one of several values of a key, silently.
class ParseWatch {
 public:
  /// What the parser asks before it keeps a value. After the first error nothing is kept, so nothing grows.
  bool operator()(int depth, ParseEvent event, const Json& parsed) {
    if (!status_.ok()) return false;
    if ((event == ParseEvent::object_start || event == ParseEvent::array_start) && depth >= kMaxJsonDepth) {
      status_ = invalid_argument(fmt::format("nested deeper than {} levels; make it flatter", kMaxJsonDepth));
    } else if (event == ParseEvent::object_start) {
      keys_.emplace_back();
    } else if (event == ParseEvent::object_end) {
      keys_.pop_back();
    } else if (event == ParseEvent::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      status_ = invalid_argument(fmt::format("{}: is there twice", parsed.dump()));
    }
    return status_.ok();
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  Status status_;
};

Status not_valid(size_t byte) { return invalid_argument(fmt::format("not valid JSON (at byte {})", byte)); }

}  // namespace

Result<Json> parse_user_json(std::string_view text) {
  if (const size_t at = text.find('\0'); at != text.npos) return not_valid(at);  // the parser would take it for the end
  ParseWatch watch;
  try {
    Json value = Json::parse(text, std::ref(watch));
    BASS_RETURN_IF_ERROR(watch.status());
    return value;
  } catch (const Json::parse_error& error) {
    BASS_RETURN_IF_ERROR(watch.status());
    return not_valid(error.byte);
  } catch (const Json::out_of_range&) {
    BASS_RETURN_IF_ERROR(watch.status());
    return invalid_argument("holds a number that is too large");
  }
}

}  // namespace bass
