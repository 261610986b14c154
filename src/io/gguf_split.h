// GGUF files that were split: "x-00001-of-00003.gguf" and its siblings. Internal to src/io.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/gguf.h"

namespace bass {

struct OpenedGguf {
  MappedFile mapping;
  GgufContents contents;  // points into the mapping
};

/// Maps and parses one file.
Result<OpenedGguf> open_gguf(const std::string& path);

/// What a shard says about itself.
struct SplitFacts {
  uint32_t n_shards = 1;             ///< split.count
  uint32_t shard_idx = 0;            ///< split.no, from 0
  std::optional<int64_t> n_tensors;  ///< split.tensors.count: of all shards
};

Result<SplitFacts> read_split_facts(const OpenedGguf& opened, const std::string& path);

/// Opens all shards of the file that `path` is one of; `facts` are its own. Metadata is the first shard's; tensors are
/// those of all. Names of shards come from `path` alone, never from what is in a file. Errors (kInvalidFile): a shard
/// is missing, is of another file, or has a tensor that another has.
Status open_shards(const std::string& path, const SplitFacts& facts, std::vector<MappedFile>* files,
                   GgufContents* contents);

}  // namespace bass
