#include "cli/engine_loading.h"

#include "base/cache_folder.h"
#include "base/check.h"
#include "cli/model_store.h"

namespace bass {

Result<std::unique_ptr<Engine>> load_engine(EngineOptions options) {
  BASS_ASSIGN_OR_RETURN(options.model_path, resolve_model(options.model_path));
  if (!options.draft_path.empty()) {
    BASS_ASSIGN_OR_RETURN(options.draft_path, resolve_model(options.draft_path));
  }
  options.costs_folder = cache_folder() + "/costs";
  return Engine::load(options);
}

std::string model_label(const std::string& given, bool is_synthetic) {
  return is_synthetic ? given + " (synthetic: random weights)" : given;
}

}  // namespace bass
