// Keys of a call that no option stands for: what clients of this or other servers send beside what they ask for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

/// A JSON value for a message, cut where it is long.
std::string shown(const nlohmann::ordered_json& value);

/// Whether a key may be left unread: one that says something of the caller or asks for nothing. Error
/// (kInvalidArgument): it asks for what is not done here. nullopt: it is no such key.
std::optional<Status> check_other_key(std::string_view key, const nlohmann::ordered_json& value);

/// The error of a key that nobody knows: with what it is called here, if it is another server's name for that, or with
/// the one of `known` that it is nearest to.
Status unknown_key(std::string_view key, std::span<const std::string> known);

}  // namespace bass
