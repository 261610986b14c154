// --results: what each prompt brought, kept as soon as it is there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cli/output.h"
#include "cli/prompts.h"
#include "cli/results.h"

namespace bass {

/// A JSONL file that grows by a line for each prompt whose samples have all ended, in the order in which they do. A run
/// that was stopped, in whatever way, is gone on with by the same command: prompts that have a line are not run again.
/// So that answers to other questions are not taken for these, a line has a digest of its request.
class ResultsFile {
 public:
  /// Opens the file or makes it, and locks it, so that no two runs write to it; "-" is `out`. Errors (kInvalidArgument;
  /// kResourceExhausted for a full disk) name the path and what is wrong with it; nothing was changed then.
  static Result<std::unique_ptr<ResultsFile>> open(const std::string& path, Output* out);
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;
  /// A file that it made and that got no line is removed.
  ~ResultsFile();

  /// Takes the prompts that have a line out of the list; their number. A last line that was cut short by a sudden end
  /// is removed. `model`: its digest (model_digest.h). Error (kInvalidArgument): a line is of another request than the
  /// prompt of its index; nothing was changed then.
  Result<int> skip_done(const GenerateOptions& options, const std::string& model, std::vector<PromptSpec>* prompts);

  /// Adds the line of a prompt of skip_done's list, unless one of its samples was cancelled, failed, or had no token
  /// when its time was up: such a prompt is run again. Whether it has. Error (kResourceExhausted): the line is not in
  /// the file, all before it are.
  Result<bool> append(const PromptResult& prompt, bool shows_origins);

  /// Error (kResourceExhausted): the path no longer names the file that was written.
  [[nodiscard]] Status check_kept() const;

 private:
  struct Line {
    int number = 0;
    int64_t index = 0;
    std::string request;
  };

  explicit ResultsFile(std::string path) : path_(std::move(path)) {}
  Status open_file();
  Status read_lines();
  Status take_line(std::string_view text, int number);
  Status take_end(std::string_view text, int number);
  Result<Line> read_line(std::string_view text, int number) const;
  Status mend_end() const;
  Status write_line(const std::string& line);
  [[nodiscard]] std::string place(int line_number) const;

  std::string path_;
  Output* out_ = nullptr;  // in place of a file
  int fd_ = -1;
  bool is_regular_ = false;
  bool is_new_ = false;
  bool has_lines_ = false;
  std::vector<Line> lines_;                          // from before
  int64_t end_ = 0;                                  // of these, in bytes
  bool lacks_line_feed_ = false;                     // the last of these
  std::unordered_map<int, std::string> request_of_;  // [index of a prompt]
};

}  // namespace bass
