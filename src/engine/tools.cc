#include "engine/tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxNameLen = 256;

Result<Tool> read_tool(const Json& json) {
  const Json function = json.is_object() ? json.value("function", Json()) : Json();
  if (!function.is_object() || json.value("type", Json("function")) != "function")
    return invalid_argument(R"(must be like {"type": "function", "function": {"name": "...", "parameters": {...}}})");
  const Json name = function.value("name", Json());
  const bool has_name = name.is_string() && !name.get_ref<const std::string&>().empty() &&
                        name.get_ref<const std::string&>().size() <= kMaxNameLen;
  if (!has_name) return invalid_argument(fmt::format("\"name\": must be a text of 1 to {} bytes", kMaxNameLen));
  Json parameters = function.value("parameters", Json());
  if (parameters.is_null() || parameters.empty())
    parameters = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  if (!parameters.is_object()) return invalid_argument("\"parameters\": must be a JSON schema, which is an object");
  return Tool{name.get<std::string>(), std::move(parameters)};
}

}  // namespace

Result<std::vector<Tool>> read_tools(std::string_view json) {
  BASS_ASSIGN_OR_RETURN(const Json list, parse_user_json(json));
  if (!list.is_array() || list.empty() || list.size() > kMaxTools)
    return invalid_argument(fmt::format("must be a list of 1 to {} functions", kMaxTools));
  std::vector<Tool> tools;
  for (size_t i = 0; i < list.size(); ++i) {
    Result<Tool> tool = read_tool(list[i]);
    if (!tool.ok()) return invalid_argument(fmt::format("[{}]: {}", i, tool.status().message()));
    if (std::ranges::find(tools, tool.value().name, &Tool::name) != tools.end())
      return invalid_argument(fmt::format("[{}]: a function \"{}\" is there already", i, tool.value().name));
    tools.push_back(std::move(tool).value());
  }
  return tools;
}

Status check_tools(std::string_view json) { return read_tools(json).status(); }

}  // namespace bass
