#include "cli/hub/hub_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "cli/hub/hub_name.h"
#include "text/json_reader.h"

namespace bass {
namespace {

Status wrong(std::string_view what) { return unavailable(fmt::format("the hub's answer makes no sense: {}", what)); }

/// nullptr for a key that is absent or null.
const nlohmann::json* find_value(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status read_size(const nlohmann::json& object, HubFile* file) {
  const nlohmann::json* size = find_value(object, "size");
  if (size == nullptr) return ok_status();
  const int64_t n_bytes = size->is_number_integer() ? size->get<int64_t>() : -1;
  if (n_bytes < 0 || n_bytes > kMaxHubFileBytes)
    return wrong(fmt::format("{} has the size {}", file->name, size->dump()));
  file->n_bytes = n_bytes;
  return ok_status();
}

Status read_hash(const nlohmann::json& object, const char* key, size_t n_digits, HubFile* file) {
  const nlohmann::json* hash = find_value(object, key);
  if (hash == nullptr) return ok_status();
  if (!hash->is_string() || !is_hex(hash->get_ref<const std::string&>(), n_digits)) {
    return wrong(fmt::format("the {} of {} is no hash of {} digits", key, file->name, n_digits));
  }
  file->blob = hash->get<std::string>();
  return ok_status();
}

Result<HubFile> read_file(const nlohmann::json& sibling) {
  const nlohmann::json* name = sibling.is_object() ? find_value(sibling, "rfilename") : nullptr;
  if (name == nullptr || !name->is_string()) return wrong("a file without a name");
  HubFile file{.name = name->get<std::string>()};
  if (!is_safe_hub_path(file.name)) return wrong(fmt::format("'{}' is no name for a file of a repository", file.name));
  BASS_RETURN_IF_ERROR(read_size(sibling, &file));
  BASS_RETURN_IF_ERROR(read_hash(sibling, "blobId", kSha1Digits, &file));
  if (const nlohmann::json* lfs = find_value(sibling, "lfs"); lfs != nullptr) {
    if (!lfs->is_object()) return wrong(fmt::format("the lfs of {} is no object", file.name));
    file.blob.clear();  // the blobId is the pointer's
    BASS_RETURN_IF_ERROR(read_size(*lfs, &file));
    BASS_RETURN_IF_ERROR(read_hash(*lfs, "sha256", kSha256Digits, &file));
  }
  return file;
}

}  // namespace

const HubFile* HubListing::find(std::string_view name) const {
  const auto found = std::ranges::find(files, name, &HubFile::name);
  return found == files.end() ? nullptr : &*found;
}

Result<HubListing> parse_hub_listing(std::string_view json) {
  const Result<nlohmann::json> parsed = read_small_json(json);
  if (!parsed.ok()) return wrong(parsed.status().message());
  const nlohmann::json& root = parsed.value();
  const nlohmann::json* commit = root.is_object() ? find_value(root, "sha") : nullptr;
  const nlohmann::json* siblings = root.is_object() ? find_value(root, "siblings") : nullptr;
  if (commit == nullptr || !commit->is_string() || !is_commit(commit->get_ref<const std::string&>())) {
    return wrong("no commit (key 'sha')");
  }
  if (siblings == nullptr || !siblings->is_array()) return wrong("no list of files (key 'siblings')");
  HubListing listing{.commit = commit->get<std::string>()};
  for (const nlohmann::json& sibling : *siblings) {
    BASS_ASSIGN_OR_RETURN(HubFile file, read_file(sibling));
    listing.files.push_back(std::move(file));
  }
  std::ranges::sort(listing.files, {}, &HubFile::name);
  return listing;
}

std::vector<std::string> parse_hub_revisions(std::string_view json) {
  std::vector<std::string> names;
  const Result<nlohmann::json> root = read_small_json(json);
  if (!root.ok() || !root->is_object()) return names;
  for (const char* kind : {"branches", "tags"}) {
    const nlohmann::json* list = find_value(root.value(), kind);
    if (list == nullptr || !list->is_array()) continue;
    for (const nlohmann::json& item : *list) {
      const nlohmann::json* name = item.is_object() ? find_value(item, "name") : nullptr;
      if (name != nullptr && name->is_string()) names.push_back(name->get<std::string>());
    }
  }
  return names;
}

Result<std::vector<std::string>> parse_weight_index(std::string_view json) {
  const Status no_index = invalid_file("is no index of tensors (key 'weight_map')");
  BASS_ASSIGN_OR_RETURN(const nlohmann::json root, read_small_json(json));
  const nlohmann::json* map = root.is_object() ? find_value(root, "weight_map") : nullptr;
  if (map == nullptr || !map->is_object() || map->empty()) return no_index;
  std::set<std::string> names;
  for (const nlohmann::json& name : *map) {
    if (!name.is_string() || !is_safe_hub_path(name.get_ref<const std::string&>())) return no_index;
    names.insert(name.get<std::string>());
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace bass
