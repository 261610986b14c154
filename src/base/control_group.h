// What this process's control group allows it: the limits of a container.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bass {

/// Where a group of version 2 sees itself as the root.
inline constexpr char kControlGroupFolder[] = "/sys/fs/cgroup";

/// Bytes that the group may still take, the file cache that the kernel would give up for them included. None: it has no
/// limit.
std::optional<int64_t> group_available_bytes(const std::string& folder = kControlGroupFolder);

/// Processors' time that it may use, in processors. None: it has no limit.
std::optional<double> group_processors(const std::string& folder = kControlGroupFolder);

}  // namespace bass
