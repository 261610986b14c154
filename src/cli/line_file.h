// A JSONL file that a run adds lines to, and that the same command goes on with, however the run has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/output.h"

namespace bass {

/// Whether one of both is the beginning of the other.
inline bool are_alike(std::string_view a, std::string_view b) { return a.starts_with(b) || b.starts_with(a); }

class LineFile {
 public:
  /// What its lines are.
  struct Kind {
    std::string_view flag;  ///< the option that names the file, for messages
    /// Takes a line that is there from before, not blank. Error, whose message gets the line's place in front: it is
    /// none of these; then nothing was changed.
    std::function<Status(std::string_view text, int number)> take;
    /// Whether this, which `take` does not take, is the beginning of such a line: of a run that was killed, or of a
    /// full disk.
    std::function<bool(std::string_view text)> is_cut;
  };

  /// Opens the file or makes it, locks it, so that no two runs write to it, and gives its lines to kind.take; "-" is
  /// `out`. Errors (kInvalidArgument; kResourceExhausted for a full disk) name the path and what is wrong with it;
  /// nothing was changed then.
  static Result<std::unique_ptr<LineFile>> open(Kind kind, const std::string& path, Output* out);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  /// A file that it made and that got no line is removed.
  ~LineFile();

  /// Before the first line: removes a last one that was cut short by a sudden end.
  Status mend_end();
  /// Adds a line, which ends with a line feed. Error (kResourceExhausted): it is not in the file, all before it are.
  Status append(std::string_view line);
  /// Error (kResourceExhausted): the path no longer names the file that was written.
  [[nodiscard]] Status check_kept() const;
  /// "--results PATH:7", for messages.
  [[nodiscard]] std::string place(int line_number) const;

 private:
  LineFile(Kind kind, std::string path) : kind_(std::move(kind)), path_(std::move(path)) {}
  [[nodiscard]] std::string name() const;
  Status open_file();
  Result<int> open_patiently(int flags) const;
  Status read_lines();
  Status take_line(std::string_view text, int number);
  Status take_end(std::string_view text, int number);
  [[nodiscard]] Status try_take(std::string_view text, int number) const;

  Kind kind_;
  std::string path_;
  Output* out_ = nullptr;  // in place of a file
  int fd_ = -1;
  bool is_regular_ = false;
  bool is_new_ = false;
  bool has_lines_ = false;
  int64_t end_ = 0;               // of the lines from before, in bytes
  bool lacks_line_feed_ = false;  // the last of these
};

}  // namespace bass
