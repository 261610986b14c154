#include "base/control_group.h"

#include <algorithm>
#include <fstream>

namespace bass {
namespace {

std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;  // "max" is no number: no limit
  return std::nullopt;
}

// Pages of files that were read: they count as used until somebody needs the memory.
int64_t file_cache_bytes(const std::string& folder) {
  std::ifstream stat(folder + "/memory.stat");
  std::string name;
  int64_t sum = 0;
  for (int64_t bytes = 0; stat >> name >> bytes;) {
    if (name == "inactive_file" || name == "active_file") sum += bytes;
  }
  return sum;
}

}  // namespace

std::optional<int64_t> group_available_bytes(const std::string& folder) {
  const std::optional<int64_t> limit = read_number(folder + "/memory.max");
  const std::optional<int64_t> used = read_number(folder + "/memory.current");
  if (!limit || !used) return std::nullopt;
  return std::clamp<int64_t>(*limit - *used + file_cache_bytes(folder), 0, *limit);
}

std::optional<double> group_processors(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota_us = 0;
  double period_us = 0;
  if (!(file >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return std::nullopt;  // "max 100000"
  return quota_us / period_us;
}

}  // namespace bass
