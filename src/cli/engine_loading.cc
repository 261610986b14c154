#include "cli/engine_loading.h"

#include <fmt/format.h>

#include "base/cache_folder.h"
#include "base/check.h"
#include "base/thread_team.h"
#include "cli/model_store.h"
#include "cli/shipped_draft.h"
#include "cli/terminal_text.h"
#include "tensor/quantise.h"

namespace bass {
namespace {

// With a note where the draft that comes with the model cannot be used: nobody asked for it, so it may be the error
// only if it is the draft's. Without it there is none.
Result<NamedEngine> load_with_or_without_draft(EngineOptions engine_options, const GenerateOptions& options) {
  Result<std::unique_ptr<Engine>> engine = Engine::load(engine_options);
  if (engine.ok()) return NamedEngine{std::move(engine).value(), {}};
  if (!options.is_draft_shipped) return engine.status();
  engine_options.draft_path.clear();
  BASS_ASSIGN_OR_RETURN(std::unique_ptr<Engine> plain, Engine::load(engine_options));
  return NamedEngine{std::move(plain),
                     {fmt::format("warning: the draft that comes with {} is not used: {}", options.engine.model_path,
                                  engine.status().message())}};
}

// A step waits for its slowest thread: twice as many threads as processors take 2.8 times as long (AMD Zen 3).
std::string threads_note(const Engine& engine, bool is_quiet) {
  const EngineOptions& options = engine.options();
  const int n_processors = available_threads();
  if (is_quiet || options.n_threads <= n_processors || options.device.starts_with("cuda")) return {};
  return fmt::format(
      "--threads {}: there are {} processors for them; more threads than processors make steps much longer",
      options.n_threads, n_processors);
}

}  // namespace

Result<NamedEngine> load_named_engine(const GenerateOptions& options) {
  EngineOptions engine_options = options.engine;
  BASS_ASSIGN_OR_RETURN(engine_options.model_path, resolve_model(engine_options.model_path));
  if (!engine_options.draft_path.empty()) {
    BASS_ASSIGN_OR_RETURN(engine_options.draft_path, resolve_model(engine_options.draft_path));
  }
  engine_options.costs_folder = cache_folder() + "/costs";
  BASS_ASSIGN_OR_RETURN(NamedEngine named, load_with_or_without_draft(std::move(engine_options), options));
  // Whoever asked for `auto` wants to know why no GPU is used in a build that has CUDA, and why no draft model.
  for (const std::string& note :
       {named.engine->device_note(), missing_draft_note(options), threads_note(*named.engine, options.quiet)}) {
    if (!note.empty()) named.notes.push_back("note: " + note);
  }
  return named;
}

Result<std::unique_ptr<Engine>> load_engine(const GenerateOptions& options, Console* console) {
  BASS_ASSIGN_OR_RETURN(NamedEngine named, load_named_engine(options));
  for (const std::string& note : named.notes) console->err.write(one_line_for_terminal(note) + "\n");
  return std::move(named.engine);
}

Result<ModelFile> load_named_model(const GenerateOptions& options) {
  BASS_ASSIGN_OR_RETURN(const std::string path, resolve_model(options.engine.model_path));
  return load_model_file(path, find_quantisable_type(options.engine.quantize), options.engine.n_threads);
}

std::string model_label(const std::string& given, bool is_synthetic) {
  return is_synthetic ? given + " (synthetic: random weights)" : given;
}

}  // namespace bass
