#include "model/architecture.h"

#include <fmt/format.h>

#include <string>

#include "base/check.h"

namespace bass {
Result<const Architecture*> find_architecture(const GgufFile& gguf) {
  BASS_ASSIGN_OR_RETURN(const auto name, gguf.get_string("general.architecture"));
  std::string known;
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->name == name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture->name);
  }
  return invalid_file(
      fmt::format("{}: architecture '{}' is not supported; supported: {}", gguf.file().path(), name, known));
}

}  // namespace bass
