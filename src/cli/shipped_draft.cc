#include "cli/shipped_draft.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "cli/model_store.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

// Where this code lies in a shared library, such as a Python module: that library's folder.
std::optional<fs::path> library_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&find_shipped_draft), &info) == 0) return std::nullopt;
  const fs::path file = info.dli_fname;  // of a program as it was called, of a library with its folder
  if (file.filename().string().find(".so") == std::string::npos) return std::nullopt;
  return file.parent_path();
}

std::vector<fs::path> draft_folders() {
  std::vector<fs::path> folders;
  const char* given = std::getenv("BASS_MODELS");
  if (given != nullptr && *given != '\0') folders.emplace_back(given);
  if (const std::optional<fs::path> folder = library_folder(); folder.has_value())
    folders.push_back(*folder / "models");
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return folders;
  folders.push_back(program.parent_path() / "models");
  folders.push_back(program.parent_path().parent_path() / "share/bass/models");
  return folders;
}

}  // namespace

std::optional<std::string> find_shipped_draft(const std::string& model) {
  const KnownModel* known = find_meant_model(model);
  if (known == nullptr) return std::nullopt;
  for (const fs::path& folder : draft_folders()) {
    const fs::path path = folder / known->draft_file_name;
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path.string();
  }
  return std::nullopt;
}

void use_shipped_draft(GenerateOptions* options) {
  const DrafterChoice drafter = options->request.speculation.drafter;
  const bool would_use_one = drafter == DrafterChoice::kAuto || drafter == DrafterChoice::kModel;
  if (!options->engine.draft_path.empty() || !would_use_one) return;
  const std::optional<std::string> path = find_shipped_draft(options->engine.model_path);
  options->is_draft_missing =
      !path.has_value() && drafter == DrafterChoice::kAuto && find_meant_model(options->engine.model_path) != nullptr;
  if (!path.has_value()) return;
  options->engine.draft_path = *path;
  options->is_draft_shipped = true;
}

void drop_shipped_draft(GenerateOptions* options) {
  options->is_draft_missing = false;
  if (!options->is_draft_shipped) return;
  options->engine.draft_path.clear();
  options->is_draft_shipped = false;
}

std::string missing_draft_note(const GenerateOptions& options) {
  if (!options.is_draft_missing || options.quiet || options.request.speculation.draft_length == "off") return {};
  std::string folders;
  for (const fs::path& folder : draft_folders()) folders += (folders.empty() ? " in " : ", ") + folder.string();
  return fmt::format(
      "the draft model that comes with {}, {}, was not found{}: n-grams alone draft (--drafter ngram; set "
      "BASS_MODELS to its folder, or name a draft with -d)",
      options.engine.model_path, find_meant_model(options.engine.model_path)->draft_file_name, folders);
}

}  // namespace bass
