#include "server/sent_event.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text/user_json.h"

namespace bass {

std::string server_sent_event(const nlohmann::ordered_json& object, const std::string& name) {
  const std::string begin = name.empty() ? "" : fmt::format("event: {}\n", name);
  return fmt::format("{}data: {}\n\n", begin, with_escaped_line_ends(json_text(object)));
}

}  // namespace bass
