#include "cli/bad_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace bass {

void BadLines::add(Status status, std::string_view origin) {
  if (status.ok()) return;
  if (first_.ok()) {
    first_ = std::move(status);
    return;
  }
  if (++n_others_ <= kMaxNamed) numbers_.emplace_back(origin.substr(origin.rfind(':') + 1));
}

Status BadLines::status() const {
  if (n_others_ == 0) return first_;
  const std::string lines = n_others_ == 1 ? "line is" : "lines are";
  return {first_.code(), fmt::format("{}; {} more {} wrong: {}{}", first_.message(), n_others_, lines,
                                     fmt::join(numbers_, ", "), n_others_ > kMaxNamed ? ", ..." : "")};
}

}  // namespace bass
