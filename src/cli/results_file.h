// --results: what each prompt brought, kept as soon as it is there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cli/line_file.h"
#include "cli/output.h"
#include "cli/prompts.h"
#include "cli/results.h"

namespace bass {

/// A LineFile that grows by a line for each prompt whose samples have all ended, in the order in which they do. A run
/// that was stopped, in whatever way, is gone on with by the same command: prompts that have a line are not run again.
/// So that answers to other questions are not taken for these, a line has a digest of its request.
class ResultsFile {
 public:
  /// Errors: LineFile's, and for lines of another kind (kInvalidArgument); nothing was changed then.
  static Result<std::unique_ptr<ResultsFile>> open(const std::string& path, Output* out);
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;

  /// Takes the prompts that have a line out of the list; their number. A last line that was cut short by a sudden end
  /// is removed. `model`: its digest (model_digest.h). Prompts with an id may have another place than they had. Error
  /// (kInvalidArgument): a line is of no prompt's request; nothing was changed then.
  Result<int> skip_done(const GenerateOptions& options, const std::string& model, std::vector<PromptSpec>* prompts);

  /// Adds the line of a prompt of skip_done's list, unless one of its samples was cancelled, failed, or had no token
  /// when its time was up: such a prompt is run again. Whether it has. Error (kResourceExhausted): the line is not in
  /// the file, all before it are.
  Result<bool> append(const PromptResult& prompt, bool shows_origins);

  /// Error (kResourceExhausted): the path no longer names the file that was written.
  [[nodiscard]] Status check_kept() const { return file_->check_kept(); }

 private:
  struct Line {
    int number = 0;
    int64_t index = 0;
    std::string request;
  };

  ResultsFile() = default;
  Status take_line(std::string_view text, int number);
  /// The indices of the prompts that have a line.
  [[nodiscard]] Result<std::unordered_set<int>> find_done(const std::vector<PromptSpec>& prompts) const;
  [[nodiscard]] const std::string* request_at(int64_t index) const;  // of the prompt there; null: there is none
  [[nodiscard]] Status check_line(const Line& line, int last_index) const;

  std::unique_ptr<LineFile> file_;
  std::vector<Line> lines_;                          // from before
  std::unordered_map<int, std::string> request_of_;  // [index of a prompt]
};

}  // namespace bass
