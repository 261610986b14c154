// Objects as server-sent events.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace bass {

/// name: of the event; empty: it has none
std::string server_sent_event(const nlohmann::ordered_json& object, const std::string& name = "");

}  // namespace bass
