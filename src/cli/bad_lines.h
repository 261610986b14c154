// What is wrong with the lines of a file, told at once: who has thousands of prompts mends them in one go.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

class BadLines {
 public:
  /// status: of a line, whose error names it; ok: nothing is wrong with it. origin: "NAME:LINE"
  void add(Status status, std::string_view origin);
  /// The first one's error, with the numbers of the others behind it; ok if there are none.
  [[nodiscard]] Status status() const;

 private:
  static constexpr size_t kMaxNamed = 20;

  Status first_;
  size_t n_others_ = 0;
  std::vector<std::string> numbers_;  // of the first others
};

/// As for_each_line (cli/input.h), but for every line, whatever is wrong with those before it.
Status for_every_line(const std::string& name, const std::string& text,
                      const std::function<Status(const std::string& line, const std::string& origin)>& read);

}  // namespace bass
