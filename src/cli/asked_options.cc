#include "cli/asked_options.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "text/user_json.h"

namespace bass {
namespace {

/// Whether it tells what is sampled; the engine's options are told by name.
bool tells_what_is_asked(const Option& option) {
  constexpr std::array kOfEngine{"quantize", "activations", "kv_type", "context"};
  if (std::ranges::find(kOfEngine, option.name) != kOfEngine.end()) return true;
  return option.is_per_request && option.group != OptionGroup::kSpeculation && option.name != "time_budget";
}

}  // namespace

nlohmann::ordered_json asked_options(const GenerateOptions& options, const Request& request) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  GenerateOptions asked;
  asked.engine = options.engine;
  asked.request = request;
  const GenerateOptions defaults;
  for (const Option& option : options_table()) {
    if (!tells_what_is_asked(option)) continue;
    const nlohmann::json value = option_json(option, asked);
    if (value != option_json(option, defaults)) json[std::string(option.name)] = value;  // new options change nothing
  }
  return json;
}

std::string short_digest(const nlohmann::ordered_json& json) {
  constexpr size_t kDigits = 16;
  Digest digest = Digest::sha256();
  digest.update(json_line(json));
  return digest.finish().substr(0, kDigits);
}

}  // namespace bass
