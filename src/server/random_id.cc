#include "server/random_id.h"

#include <fmt/format.h>

#include <random>

namespace bass {

std::string random_id(std::string_view prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, random(), random(), random());
}

}  // namespace bass
