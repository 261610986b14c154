#include "model/architecture.h"

#include <fmt/format.h>

#include <string>

#include "base/check.h"
#include "io/gguf_format.h"

namespace bass {

Result<const Architecture*> find_architecture(const GgufFile& gguf) {
  BASS_ASSIGN_OR_RETURN(const auto name, gguf.get_string("general.architecture"));
  std::string known;
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->name == name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture->name);
  }
  return invalid_file(fmt::format("{}: architecture '{}' is not supported; supported: {}", gguf.path(), name, known));
}

Result<const Architecture*> find_architecture_of_checkpoint(const std::string& model_type,
                                                            const std::string& config_path) {
  std::string known;
  for (const Architecture* architecture : kArchitectures) {
    for (const std::string_view type : architecture->hf.model_types) {
      if (type.empty()) continue;
      if (type == model_type) return architecture;
      known += (known.empty() ? "" : ", ") + std::string(type);
    }
  }
  return invalid_file(fmt::format("{}: model type {} is not supported; supported: {} (key 'model_type')", config_path,
                                  gguf_format::in_quotes(model_type), known));
}

}  // namespace bass
