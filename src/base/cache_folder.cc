#include "base/cache_folder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace bass {

std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/bass";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && *home != '\0' ? home : "/tmp") + "/.cache/bass";
}

Status make_cache_folder() {
  std::error_code error;
  std::filesystem::create_directories(cache_folder(), error);
  if (!error) return ok_status();
  return invalid_argument(
      fmt::format("cannot make the cache folder {}: {}; set XDG_CACHE_HOME to a folder that can be written",
                  cache_folder(), error.message()));
}

}  // namespace bass
