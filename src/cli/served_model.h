// What commands that answer calls of the API have in common: what a call does not say, and what the model is called.
#pragma once

#include <string>

#include "cli/arguments.h"
#include "engine/options.h"

namespace bass {

inline constexpr const char* kModelNameHelp =
    "what callers call the model [as -m; of a file or folder its name, without .gguf]";

/// Options of the engine, and of calls that do not say otherwise.
void add_served_options(CLI::App* app, TableArguments* arguments);
/// The protocol's defaults, for TableArguments::apply.
void set_served_defaults(GenerateOptions* options);
/// The model's name where nobody gives it one. "smollm2" and "ORG/NAME" are names already; of a file or a folder its
/// own name says enough.
std::string served_name(const std::string& model);

}  // namespace bass
