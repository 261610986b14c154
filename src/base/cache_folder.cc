#include "base/cache_folder.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace bass {

std::string home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return "/";
  return found->pw_dir;
}

std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/bass";
  return home_folder() + "/.cache/bass";
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
