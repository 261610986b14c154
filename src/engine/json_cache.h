// Measurements that are kept between runs, as JSON files. A file that cannot be read or written is no error: what it
// would say is measured again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace bass {

/// The object in the file; an empty one where there is none, or something else.
nlohmann::ordered_json read_json_cache(const std::string& path);

/// Replaces the file, whole, and makes its folder. What is no regular file stays as it is.
void write_json_cache(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace bass
