// Which files of a repository make a model that BASS runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"
#include "cli/hub/hub_listing.h"
#include "cli/hub/hub_name.h"

namespace bass {

inline constexpr std::string_view kWeightIndexName = "model.safetensors.index.json";

struct HubChoice {
  std::vector<HubFile> files;
  std::string model;       ///< what -m takes: a path in the repository, or "" for the whole
  bool has_index = false;  ///< the files that kWeightIndexName names are still missing
};

/// GGUF files come first: the only one there is, or what name.file says: a file (all parts of a split one), or a kind
/// like Q4_K_M that stands in one name, in any case. Else, or when name.file is "safetensors", the checkpoint:
/// configuration, tokenizer, weights. Errors (kInvalidArgument) name the repository and what there is to choose from.
Result<HubChoice> choose_hub_files(const HubListing& listing, const HubName& name);

/// Adds the files that the index (its text) names. Error (kInvalidFile): no index, or a file is not there.
Status add_indexed_files(const HubListing& listing, std::string_view index, HubChoice* choice);

}  // namespace bass
