// Contents that are being fetched: BLOB.incomplete, which becomes BLOB when it is whole and right.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/digest.h"
#include "bass/status.h"
#include "cli/hub/hub_listing.h"

namespace bass {

/// Hashes what it writes (a blob that is named by no hash is known by its size only). What an earlier run left is taken
/// up. Without `keep` the file stays for the next run. Errors (kResourceExhausted) name the path.
class IncompleteBlob {
 public:
  /// path: of the blob. Takes the disk's space for the rest of the file, where the file system can.
  static Result<std::unique_ptr<IncompleteBlob>> open(const std::string& path, const HubFile& file);
  IncompleteBlob(const IncompleteBlob&) = delete;
  IncompleteBlob& operator=(const IncompleteBlob&) = delete;
  ~IncompleteBlob();

  [[nodiscard]] int64_t n_bytes() const { return n_bytes_; }
  [[nodiscard]] bool is_whole() const { return n_bytes_ == file_.n_bytes; }

  Status start_over();
  /// Error (kUnavailable): more bytes than the file has.
  Status write(std::span<const char> bytes);

  /// The whole file is on the disk before it has its name. Error (kInvalidFile): wrong bytes; they are removed.
  Status keep();

 private:
  IncompleteBlob(std::string path, const HubFile& file) : path_(std::move(path)), file_(file), hash_(new_hash()) {}

  [[nodiscard]] Digest new_hash() const;
  [[nodiscard]] std::string incomplete_path() const { return path_ + ".incomplete"; }
  Status take_up();

  std::string path_;
  HubFile file_;
  Digest hash_;
  int fd_ = -1;
  int64_t n_bytes_ = 0;
  bool is_taken_up_ = false;  // n_bytes_ are all that the file has
};

}  // namespace bass
