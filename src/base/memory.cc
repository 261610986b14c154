#include "base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/control_group.h"

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

}  // namespace

int64_t available_memory_bytes() {
  const int64_t available = system_available_bytes();
  return std::min(available, group_available_bytes().value_or(available));
}

}  // namespace bass
