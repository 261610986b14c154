// Reading what a user hands to a command.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/output.h"
#include "engine/options.h"

namespace bass {

/// The whole of a file, byte for byte; "-" is standard input. Pipes are fine. Errors (kInvalidFile) name the path;
/// kCancelled when a signal came while waiting for input.
Result<std::string> read_input(const std::string& path);

/// The text of a command that takes -p or -f, or standard input when neither is given.
Result<std::string> read_text(const GenerateOptions& options);

/// Lines of standard input as they come.
class LineReader {
 public:
  /// The next line without its line feed; none at the end. Errors: kCancelled when a signal came; kInvalidArgument for
  /// a line that is too long for any use; kInvalidFile when reading fails.
  Result<std::optional<std::string>> next();

 private:
  std::string buffer_;  // read, not yet given out
};

/// Calls read(line, origin) for every line of a JSONL text that is not blank; origin is "NAME:LINE", for messages. The
/// first error ends it, with the origin in front.
Status for_each_line(const std::string& name, const std::string& text,
                     const std::function<Status(const std::string& line, const std::string& origin)>& read);

/// What messages call an input: its path, or "standard input".
std::string input_name(const std::string& path);

/// Error: "WHAT: invalid UTF-8 at byte N ...".
Status check_utf8(std::string_view what, std::string_view text);

}  // namespace bass
