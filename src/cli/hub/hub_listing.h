// What a repository of a hub holds at one commit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

struct HubFile {
  std::string name;      ///< its path in the repository; safe (is_safe_hub_path)
  int64_t n_bytes = -1;  ///< -1: not known
  /// The name of its contents: their SHA-256 (64 digits), or git's SHA-1 (40 digits) of a small file. "": not known.
  std::string blob;
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;  ///< in the order of their names

  /// nullptr when there is none.
  [[nodiscard]] const HubFile* find(std::string_view name) const;
};

inline constexpr int64_t kMaxHubFileBytes = int64_t{1} << 44;

/// Reads the answer of GET /api/models/ORG/NAME/revision/REVISION?blobs=true. Errors (kUnavailable, without the hub's
/// name): not the JSON of that answer; names that leave the repository's folder; sizes and hashes that cannot be.
Result<HubListing> parse_hub_listing(std::string_view json);

/// The branches and tags in the answer of GET /api/models/ORG/NAME/refs; none if it is something else.
std::vector<std::string> parse_hub_revisions(std::string_view json);

/// The files that model.safetensors.index.json names, each once. Error (kInvalidFile, without the file's name).
Result<std::vector<std::string>> parse_weight_index(std::string_view json);

}  // namespace bass
