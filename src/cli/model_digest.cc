#include "cli/model_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/digest.h"
#include "base/mapped_file.h"
#include "io/gguf.h"
#include "model/model_source.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeadBytes = 1 << 20;  // where metadata are
constexpr size_t kBlocks = 256;         // behind that
constexpr size_t kBlockBytes = 4096;

/// What a checkpoint has beside its weights.
bool is_text(const fs::path& path) {
  constexpr std::array kEndings{".jinja", ".json", ".model", ".txt"};
  return std::ranges::find(kEndings, path.extension().string()) != kEndings.end();
}

std::vector<std::string> files_of_checkpoint(const std::string& path) {
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::absolute(path).parent_path();
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const bool is_part = is_text(entry.path()) || entry.path().extension() == ".safetensors";
    if (is_part && entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

Result<std::vector<std::string>> files_of(const std::string& path) {
  try {
    if (is_checkpoint(path)) return files_of_checkpoint(path);
  } catch (const fs::filesystem_error& error) {
    return invalid_argument(fmt::format("{}: cannot be read: {}", path, error.code().message()));
  }
  BASS_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(path));
  return file.file_paths();
}

Status add(const std::string& path, Digest* digest) {
  BASS_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const std::span bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  digest->update(fmt::format("{};", bytes.size()));
  const size_t n_head = is_text(path) ? bytes.size() : std::min(bytes.size(), kHeadBytes);
  digest->update(bytes.first(n_head));
  const std::span rest = bytes.subspan(n_head);
  if (rest.size() <= kBlocks * kBlockBytes) {
    digest->update(rest);
  } else {
    const size_t last = rest.size() - kBlockBytes;
    for (size_t i = 0; i < kBlocks; ++i) digest->update(rest.subspan(last / (kBlocks - 1) * i, kBlockBytes));
    digest->update(rest.last(kBlockBytes));
  }
  return file.check_intact();
}

}  // namespace

Result<std::string> model_digest(const std::string& path) {
  constexpr size_t kDigits = 16;
  BASS_ASSIGN_OR_RETURN(const std::vector<std::string> files, files_of(path));
  Digest digest = Digest::sha256();
  for (const std::string& file : files) BASS_RETURN_IF_ERROR(add(file, &digest));
  return digest.finish().substr(0, kDigits);
}

}  // namespace bass
