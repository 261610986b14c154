#include "cli/engine_loading.h"

#include <fmt/format.h>

#include "base/cache_folder.h"
#include "base/check.h"
#include "cli/model_store.h"
#include "cli/shipped_draft.h"
#include "cli/terminal_text.h"
#include "tensor/quantise.h"

namespace bass {
namespace {

// Whoever asked for `auto` wants to know why no GPU is used in a build that has CUDA, and why no draft model.
Result<std::unique_ptr<Engine>> tell_choices(Result<std::unique_ptr<Engine>> engine, const GenerateOptions& options,
                                             Console* console) {
  if (!engine.ok()) return engine;
  for (const std::string& note : {engine.value()->device_note(), missing_draft_note(options)}) {
    if (!note.empty()) console->err.write(fmt::format("note: {}\n", one_line_for_terminal(note)));
  }
  return engine;
}

}  // namespace

Result<std::unique_ptr<Engine>> load_engine(const GenerateOptions& options, Console* console) {
  EngineOptions engine_options = options.engine;
  BASS_ASSIGN_OR_RETURN(engine_options.model_path, resolve_model(engine_options.model_path));
  if (!engine_options.draft_path.empty()) {
    BASS_ASSIGN_OR_RETURN(engine_options.draft_path, resolve_model(engine_options.draft_path));
  }
  engine_options.costs_folder = cache_folder() + "/costs";
  Result<std::unique_ptr<Engine>> engine = Engine::load(engine_options);
  if (engine.ok() || !options.is_draft_shipped) return tell_choices(std::move(engine), options, console);
  // Nobody asked for this draft, so it may be the error only if it is the draft's: without it there is none.
  engine_options.draft_path.clear();
  Result<std::unique_ptr<Engine>> plain = Engine::load(engine_options);
  if (plain.ok()) {
    console->err.write(fmt::format("warning: the draft that comes with {} is not used: {}\n", options.engine.model_path,
                                   one_line_for_terminal(engine.status().message())));
  }
  return tell_choices(std::move(plain), options, console);
}

Result<ModelFile> load_named_model(const GenerateOptions& options) {
  BASS_ASSIGN_OR_RETURN(const std::string path, resolve_model(options.engine.model_path));
  return load_model_file(path, find_quantisable_type(options.engine.quantize), options.engine.n_threads);
}

std::string model_label(const std::string& given, bool is_synthetic) {
  return is_synthetic ? given + " (synthetic: random weights)" : given;
}

}  // namespace bass
