// What a draft's file says about itself, for `bass info`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/gguf.h"

namespace bass {

/// {"path", "main_model", "main_fingerprint", "data", "loss", "positions", "acceptance"}; what the file does not say is
/// null. nullptr if the file is no draft that was made for one main model.
nlohmann::ordered_json draft_json(const GgufFile& file);

/// The same as lines for people, indented: acceptance as a table by task.
std::string draft_text(const nlohmann::ordered_json& draft);

}  // namespace bass
