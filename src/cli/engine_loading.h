// What the commands that run a model share.
#pragma once

#include <memory>
#include <string>

#include "bass/engine.h"
#include "cli/output.h"
#include "engine/options.h"
#include "model/model_file.h"

namespace bass {

/// Resolves model names and loads the engine; without the draft that comes with the model, and with a warning, where
/// that cannot be used.
Result<std::unique_ptr<Engine>> load_engine(const GenerateOptions& options, Console* console);

/// The file of -m alone, quantised as --quantize says, for commands that need no engine.
Result<ModelFile> load_named_model(const GenerateOptions& options);

/// How outputs name a model: as the user did, and that its weights are random where they are, so that nobody takes its
/// text or its scores for a language model's.
std::string model_label(const std::string& given, bool is_synthetic);

}  // namespace bass
