#include "engine/json_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "text/user_json.h"

namespace bass {

using Json = nlohmann::ordered_json;

Json read_json_cache(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return Json::object();
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Result<Json> json = parse_user_json(text);
  return json.ok() && json.value().is_object() ? std::move(json.value()) : Json::object();
}

// Under another name first: runs that end at once replace each other's file whole.
void write_json_cache(const std::string& path, const Json& json) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) return;
  // Containers that share the folder have equal process ids.
  const std::string partial = fmt::format("{}.{}.{:08x}", path, gettid(), std::random_device()());
  std::ofstream file(partial);
  file << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  file.close();
  if (file) std::filesystem::rename(partial, path, error);
  if (!file || error) std::filesystem::remove(partial, error);
}

}  // namespace bass
