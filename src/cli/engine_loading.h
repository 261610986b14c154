// What the commands that run a model share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bass/engine.h"
#include "cli/output.h"
#include "engine/options.h"
#include "model/model_file.h"

namespace bass {

/// An engine, and what whoever asked for it should know: that no GPU is used, or no draft, and why.
struct NamedEngine {
  std::unique_ptr<Engine> engine;
  std::vector<std::string> notes;
};

/// Resolves model names and loads the engine; without the draft that comes with the model where that cannot be used.
Result<NamedEngine> load_named_engine(const GenerateOptions& options);

/// The same, with the notes on standard error.
Result<std::unique_ptr<Engine>> load_engine(const GenerateOptions& options, Console* console);

/// The file of -m alone, quantised as --quantize says, for commands that need no engine.
Result<ModelFile> load_named_model(const GenerateOptions& options);

/// How outputs name a model: as the user did, and that its weights are random where they are, so that nobody takes its
/// text or its scores for a language model's.
std::string model_label(const std::string& given, bool is_synthetic);

}  // namespace bass
