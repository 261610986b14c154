#include "io/gguf_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "io/gguf_format.h"

namespace bass {
namespace {

constexpr uint32_t kMaxShards = 99999;  // the name has five digits

/// The value of a small whole number; an absent key is nullopt. Writers use several widths.
Result<std::optional<int64_t>> read_number(const OpenedGguf& opened, const std::string& path, std::string_view key,
                                           int64_t max) {
  for (const auto& [name, value] : opened.contents.metadata) {
    if (name != key) continue;
    std::optional<int64_t> number;
    if (const auto* is_unsigned = std::get_if<uint64_t>(&value)) {
      if (std::cmp_less_equal(*is_unsigned, max)) number = static_cast<int64_t>(*is_unsigned);
    } else if (const auto* is_signed = std::get_if<int64_t>(&value)) {
      if (*is_signed >= 0 && *is_signed <= max) number = *is_signed;
    }
    if (number.has_value()) return number;
    return invalid_file(fmt::format("{}: is no whole number from 0 to {} (key '{}')", path, max, key));
  }
  return std::optional<int64_t>{};
}

/// "-00002-of-00003.gguf"
std::string shard_suffix(uint32_t shard_idx, uint32_t n_shards) {
  return fmt::format("-{:05}-of-{:05}.gguf", shard_idx + 1, n_shards);
}

Status check_shard(const OpenedGguf& opened, const std::string& path, uint32_t shard_idx, uint32_t n_shards) {
  BASS_ASSIGN_OR_RETURN(const SplitFacts facts, read_split_facts(opened, path));
  if (facts.n_shards == n_shards && facts.shard_idx == shard_idx) return ok_status();
  return invalid_file(fmt::format("{}: is part {} of {} by its own account, not part {} of {} (key 'split.no')", path,
                                  facts.shard_idx + 1, facts.n_shards, shard_idx + 1, n_shards));
}

}  // namespace

Result<OpenedGguf> open_gguf(const std::string& path) {
  OpenedGguf opened;
  BASS_ASSIGN_OR_RETURN(opened.mapping, MappedFile::open(path));
  Result<GgufContents> contents = parse_gguf(opened.mapping.bytes(), path);
  BASS_RETURN_IF_ERROR(opened.mapping.check_intact());
  if (!contents.ok()) return contents.status();
  opened.contents = std::move(contents).value();
  return opened;
}

Result<SplitFacts> read_split_facts(const OpenedGguf& opened, const std::string& path) {
  constexpr int64_t kMaxTensors = int64_t{1} << 31;
  SplitFacts facts;
  BASS_ASSIGN_OR_RETURN(const auto n_shards, read_number(opened, path, "split.count", kMaxShards));
  BASS_ASSIGN_OR_RETURN(const auto shard_idx, read_number(opened, path, "split.no", kMaxShards));
  BASS_ASSIGN_OR_RETURN(facts.n_tensors, read_number(opened, path, "split.tensors.count", kMaxTensors));
  facts.n_shards = std::max<uint32_t>(1, static_cast<uint32_t>(n_shards.value_or(1)));
  facts.shard_idx = static_cast<uint32_t>(shard_idx.value_or(0));
  return facts;
}

Status open_shards(const std::string& path, const SplitFacts& facts, std::vector<MappedFile>* files,
                   GgufContents* contents) {
  const std::string suffix = shard_suffix(facts.shard_idx, facts.n_shards);
  if (!path.ends_with(suffix)) {
    return invalid_file(fmt::format("{}: is part {} of {}, so its name must end in {} (key 'split.count')", path,
                                    facts.shard_idx + 1, facts.n_shards, suffix));
  }
  const std::string prefix = path.substr(0, path.size() - suffix.size());
  std::unordered_map<std::string, uint32_t> shard_of;  // by tensor
  for (uint32_t i = 0; i < facts.n_shards; ++i) {
    const std::string shard_path = prefix + shard_suffix(i, facts.n_shards);
    BASS_ASSIGN_OR_RETURN(OpenedGguf shard, open_gguf(shard_path));
    BASS_RETURN_IF_ERROR(check_shard(shard, shard_path, i, facts.n_shards));
    for (const TensorInfo& tensor : shard.contents.tensors) {
      const auto [found, is_new] = shard_of.emplace(tensor.name, i);
      if (is_new) continue;
      return invalid_file(fmt::format("{}: tensor {} is in {} too", shard_path, gguf_format::in_quotes(tensor.name),
                                      prefix + shard_suffix(found->second, facts.n_shards)));
    }
    files->push_back(std::move(shard.mapping));
    if (i == 0) {
      *contents = std::move(shard.contents);
    } else {
      std::ranges::move(shard.contents.tensors, std::back_inserter(contents->tensors));
    }
  }
  if (facts.n_tensors.has_value() && std::cmp_not_equal(*facts.n_tensors, contents->tensors.size())) {
    return invalid_file(fmt::format("{}: its parts hold {} tensors, not {} (key 'split.tensors.count')", path,
                                    contents->tensors.size(), *facts.n_tensors));
  }
  return ok_status();
}

}  // namespace bass
