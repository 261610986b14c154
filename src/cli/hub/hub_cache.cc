#include "cli/hub/hub_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/cache_folder.h"
#include "base/check.h"
#include "cli/hub/hub_choice.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/temporary_file.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "models--";
constexpr mode_t kMode = 0644;
constexpr mode_t kLockMode = 0664;  // groups that share a cache must be able to take its locks

/// The variable's path, with ~ for the home folder as in the Python package; "" if it is not set.
std::string path_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string path = value == nullptr ? "" : value;
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, home_folder());
  return path;
}

/// Marks a folder as one that backups may leave out (the Cache Directory Tagging Specification). Best effort.
void tag_cache(const std::string& folder) {
  const int fd = open((folder + "/CACHEDIR.TAG").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (fd < 0) return;
  constexpr std::string_view kText =
      "Signature: 8a477f597d28d172789f06886806bc55\n"
      "# Models fetched from a hub; programs fetch them again.\n";
  [[maybe_unused]] const Status status = write_all(fd, kText, folder);
  close(fd);
}

Status make_folder_of(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (!error) return ok_status();
  errno = error.value();
  return disk_error(path);
}

bool has_size(const std::string& path, int64_t n_bytes) {
  std::error_code error;
  return fs::is_regular_file(path, error) && static_cast<int64_t>(fs::file_size(path, error)) == n_bytes && !error;
}

/// A name beside the path that no other program uses.
std::string other_name(const std::string& path) { return fmt::format("{}.{}.tmp", path, getpid()); }

}  // namespace

std::string hub_home() {
  if (std::string home = path_variable("HF_HOME"); !home.empty()) return home;
  const std::string cache = path_variable("XDG_CACHE_HOME");
  return (cache.empty() ? home_folder() + "/.cache" : cache) + "/huggingface";
}

std::string hub_cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (std::string folder = path_variable(name); !folder.empty()) return folder;
  }
  return hub_home() + "/hub";
}

HubCache::HubCache(const std::string& folder, const std::string& repo)
    : folder_(folder), folder_name_(std::string(kModelPrefix) + repo) {
  folder_name_.replace(folder_name_.find('/'), 1, "--");
  repo_folder_ = folder_ + "/" + folder_name_;
}

std::string HubCache::snapshot_path(const std::string& commit) const { return repo_folder_ + "/snapshots/" + commit; }

std::string HubCache::lock_path(const std::string& blob) const {
  return fmt::format("{}/.locks/{}/{}.lock", folder_, folder_name_, blob);
}

Status HubCache::make_folders() const {
  for (const std::string& path : {blob_path(""), lock_path("")}) {
    if (const Status status = make_folder_of(path); !status.ok()) {
      return invalid_argument(fmt::format("{}; set HF_HOME to a folder that can be written", status.message()));
    }
  }
  tag_cache(folder_);
  return ok_status();
}

bool HubCache::has_blob(const HubFile& file) const { return has_size(blob_path(file.blob), file.n_bytes); }

bool HubCache::has_file(const std::string& commit, const HubFile& file) const {
  const std::string path = snapshot_path(commit) + "/" + file.name;
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return has_size(path, file.n_bytes) && (error || target.filename() == file.blob);
}

Status HubCache::link(const std::string& commit, const HubFile& file) const {
  const std::string path = snapshot_path(commit) + "/" + file.name;
  BASS_RETURN_IF_ERROR(make_folder_of(path));
  std::string target = "../../";  // relative, so that the cache can be moved
  for (const char c : file.name) {
    if (c == '/') target += "../";
  }
  target += "blobs/" + file.blob;
  const std::string other = other_name(path);
  unlink(other.c_str());
  if (symlink(target.c_str(), other.c_str()) != 0) return disk_error(other);
  if (rename(other.c_str(), path.c_str()) != 0) return disk_error(path);
  return ok_status();
}

Status HubCache::write_revision(const std::string& revision, const std::string& commit) const {
  if (revision == commit || commit_of(revision) == commit) return ok_status();
  const std::string path = repo_folder_ + "/refs/" + revision;
  BASS_RETURN_IF_ERROR(make_folder_of(path));
  BASS_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::create(path));
  BASS_RETURN_IF_ERROR(file->write_all(commit));
  return file->keep_as(path, kMode);
}

std::string HubCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  constexpr size_t kMaxLen = 64;
  std::ifstream file(repo_folder_ + "/refs/" + revision);
  std::string commit(kMaxLen, '\0');
  file.read(commit.data(), kMaxLen);
  commit.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  commit.erase(commit.find_last_not_of(" \n") + 1);
  return is_commit(commit) ? commit : "";
}

HubListing HubCache::snapshot(const std::string& commit) const {
  constexpr size_t kMaxFiles = 100000;
  HubListing listing{.commit = commit};
  std::error_code error;
  std::error_code file_error;
  const fs::path folder = snapshot_path(commit);
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (listing.files.size() >= kMaxFiles) break;
    if (!it->is_regular_file(file_error)) continue;  // neither is a link that leads nowhere
    listing.files.push_back({.name = it->path().lexically_relative(folder).string(),
                             .n_bytes = static_cast<int64_t>(it->file_size(file_error))});
  }
  std::ranges::sort(listing.files, {}, &HubFile::name);
  return listing;
}

Result<std::string> find_in_hub_cache(const HubName& name) {
  const HubCache cache(hub_cache_folder(), name.repo);
  const std::string commit = cache.commit_of(name.revision);
  const HubListing listing = commit.empty() ? HubListing() : cache.snapshot(commit);
  if (listing.files.empty()) return unavailable(fmt::format("{}: is not in {}", name.text(), hub_cache_folder()));
  BASS_ASSIGN_OR_RETURN(HubChoice choice, choose_hub_files(listing, name));
  const std::string folder = cache.snapshot_path(commit);
  if (choice.has_index) {
    BASS_ASSIGN_OR_RETURN(const std::string index, read_input(fmt::format("{}/{}", folder, kWeightIndexName)));
    const Status status = add_indexed_files(listing, index, &choice);
    if (!status.ok()) return Status(status.code(), fmt::format("{}: {}", name.text(), status.message()));
  }
  return choice.model.empty() ? folder : folder + "/" + choice.model;
}

std::vector<std::string> cached_hub_repos() {
  std::vector<std::string> repos;
  std::error_code error;
  for (fs::directory_iterator it(hub_cache_folder(), error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!name.starts_with(kModelPrefix)) continue;
    name.erase(0, kModelPrefix.size());
    const size_t separator = name.find("--");
    if (separator != name.npos) repos.push_back(name.replace(separator, 2, 1, '/'));
  }
  return repos;
}

Result<std::unique_ptr<HubLock>> HubLock::take(const std::string& path, const std::function<void()>& on_wait) {
  constexpr std::chrono::milliseconds kPause(100);
  for (bool is_first = true; !is_interrupted(); is_first = false) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kLockMode);
    if (fd < 0) return disk_error(path);
    auto lock = std::make_unique<HubLock>(fd);
    struct stat held {};
    struct stat named {};
    const bool is_held = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;  // or there are no locks here
    const bool is_there = fstat(fd, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino;
    if (is_held && is_there) return lock;  // else somebody has it, or removed it meanwhile
    if (is_first) on_wait();
    std::this_thread::sleep_for(kPause);
  }
  return Status(StatusCode::kCancelled, "interrupted");
}

HubLock::~HubLock() { close(fd_); }

}  // namespace bass
