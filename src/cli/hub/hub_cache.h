// The folder of fetched models that programs share, in the layout of the hub's own Python package:
//
//   FOLDER/models--ORG--NAME/blobs/HASH               contents; HASH.incomplete while they are being fetched
//                           /snapshots/COMMIT/PATH    symbolic links to them
//                           /refs/REVISION            a commit
//   FOLDER/.locks/models--ORG--NAME/HASH.lock         held (flock) by whoever fetches HASH
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bass/status.h"
#include "cli/hub/hub_listing.h"
#include "cli/hub/hub_name.h"

namespace bass {

/// ${HF_HOME:-${XDG_CACHE_HOME:-~/.cache}/huggingface}
std::string hub_home();

/// ${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-HF_HOME/hub}}
std::string hub_cache_folder();

/// A repository's part of the cache. Errors of what writes are kResourceExhausted and name the path.
class HubCache {
 public:
  HubCache(const std::string& folder, const std::string& repo);

  [[nodiscard]] std::string blob_path(const std::string& blob) const { return repo_folder_ + "/blobs/" + blob; }
  [[nodiscard]] std::string snapshot_path(const std::string& commit) const;
  [[nodiscard]] std::string lock_path(const std::string& blob) const;

  /// Makes the folders that everything else is written to. Error (kInvalidArgument): they cannot be.
  [[nodiscard]] Status make_folders() const;

  /// Whether the file is there with its size; `file` says which blob it is.
  [[nodiscard]] bool has_blob(const HubFile& file) const;
  [[nodiscard]] bool has_file(const std::string& commit, const HubFile& file) const;

  /// Puts the file's link to its blob into the snapshot, at once, in place of what was there.
  [[nodiscard]] Status link(const std::string& commit, const HubFile& file) const;

  /// Makes the revision mean this commit.
  [[nodiscard]] Status write_revision(const std::string& revision, const std::string& commit) const;

  /// The commit that a revision meant when it was fetched; "" if it never was.
  [[nodiscard]] std::string commit_of(const std::string& revision) const;

  /// The files of a snapshot that are there, with their sizes.
  [[nodiscard]] HubListing snapshot(const std::string& commit) const;

 private:
  std::string folder_;
  std::string folder_name_;  // models--ORG--NAME
  std::string repo_folder_;
};

/// What -m takes for a model that was fetched: its GGUF file's path, or the snapshot's folder. Uses no network.
/// Errors: kUnavailable: nothing of this name is in the cache; kInvalidFile: something is missing of it;
/// kInvalidArgument: several files could be meant.
Result<std::string> find_in_hub_cache(const HubName& name);

/// The repositories (ORG/NAME) of which something is in the cache.
std::vector<std::string> cached_hub_repos();

/// The lock of a blob, held until the end of its scope.
class HubLock {
 public:
  /// Waits for whoever holds it, after a call of on_wait. Errors: kResourceExhausted; kCancelled when a signal came.
  static Result<std::unique_ptr<HubLock>> take(const std::string& path, const std::function<void()>& on_wait);
  explicit HubLock(int fd) : fd_(fd) {}
  ~HubLock();
  HubLock(const HubLock&) = delete;
  HubLock& operator=(const HubLock&) = delete;

 private:
  int fd_;
};

}  // namespace bass
