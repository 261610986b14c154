#include "cli/bad_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/check.h"
#include "cli/input.h"

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

Status for_every_line(const std::string& name, const std::string& text,
                      const std::function<Status(const std::string& line, const std::string& origin)>& read) {
  BadLines bad;
  const auto note = [&](const std::string& line, const std::string& origin) {
    const Status status = read(line, origin);
    if (!status.ok()) bad.add({status.code(), fmt::format("{}: {}", origin, status.message())}, origin);
    return ok_status();
  };
  BASS_RETURN_IF_ERROR(for_each_line(name, text, note));
  return bad.status();
}

}  // namespace bass
