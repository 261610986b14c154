// What tells one request from another in a file of answers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/options.h"

namespace bass {

/// The options that tell what is sampled (so without speculation, which is lossless, and a time budget), as far as they
/// are not the defaults. options: of the engine
nlohmann::ordered_json asked_options(const GenerateOptions& options, const Request& request);

/// 16 hexadecimal digits of its text's SHA-256.
std::string short_digest(const nlohmann::ordered_json& json);

}  // namespace bass
