#include "base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace bass {
namespace {

// /proc/meminfo's MemAvailable; free memory where the kernel has no such line.
int64_t system_available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  for (int64_t kib = 0; meminfo >> name >> kib; meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return static_cast<int64_t>(::sysconf(_SC_AVPHYS_PAGES)) * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;  // "max" is no number: no limit
  return std::nullopt;
}

// Control groups, version 2: of the group in which a container's processes see themselves as the root.
std::optional<int64_t> group_available_bytes() {
  const std::optional<int64_t> limit = read_number("/sys/fs/cgroup/memory.max");
  const std::optional<int64_t> used = read_number("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return std::nullopt;
  return std::max<int64_t>(0, *limit - *used);
}

}  // namespace

int64_t available_memory_bytes() {
  const int64_t available = system_available_bytes();
  return std::min(available, group_available_bytes().value_or(available));
}

}  // namespace bass
