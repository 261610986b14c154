// Files of calls as OpenAI's batches have them, and of their answers.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cli/line_file.h"
#include "engine/options.h"
#include "server/api_call.h"
#include "server/batch_run.h"

namespace bass {

/// A line of a file of calls: {"custom_id": ..., "method": "POST", "url": "/v1/chat/completions", "body": {...}}.
struct BatchCall {
  std::string custom_id;
  ApiEndpoint endpoint = ApiEndpoint::kChat;
  std::string model;      ///< that it names; empty: none
  bool is_timed = false;  ///< it has a time budget
  std::string body;       ///< JSON
  std::string origin;     ///< "NAME:LINE", for messages
};

/// The calls of a JSONL text. Error (kInvalidArgument), with the line: what is no call, or a custom_id that was there
/// before.
Result<std::vector<BatchCall>> read_batch_calls(const std::string& name, const std::string& text);

/// Error (kInvalidArgument): a call names another model than is there.
Status check_models(const std::vector<BatchCall>& calls, const std::string& model);

/// A LineFile that grows by a line for each call that was answered: {"id": ..., "custom_id": ..., "response":
/// {"status_code": ..., "request_id": ..., "body": {...}}, "error": null}. So that answers to other calls are not taken
/// for these, the id has a digest of the call; of one that was refused also of the engine's options, by which it may
/// have been.
class BatchAnswers {
 public:
  /// "-" is `out`. calls: must outlive it. options, model: of the engine, and the model's digest (model_digest.h).
  /// Errors: LineFile's, and for lines of another kind or of other calls (kInvalidArgument); nothing was changed then.
  static Result<std::unique_ptr<BatchAnswers>> open(const std::string& path, Output* out,
                                                    const std::vector<BatchCall>* calls, const GenerateOptions& options,
                                                    const std::string& model);

  [[nodiscard]] bool is_answered(size_t call_idx) const { return is_answered_[call_idx]; }
  [[nodiscard]] size_t n_answered() const;
  /// Of a call's answer.
  [[nodiscard]] std::string request_id(size_t call_idx) const;

  /// Error (kResourceExhausted): the line is not in the file, all before it are.
  Status append(const BatchAnswer& answer);
  [[nodiscard]] Status check_kept() const { return file_->check_kept(); }

 private:
  explicit BatchAnswers(const std::vector<BatchCall>* calls) : calls_(calls), is_answered_(calls->size()) {}
  Status take_line(std::string_view text);
  [[nodiscard]] std::string id_of(size_t call_idx, bool is_answered) const;

  const std::vector<BatchCall>* calls_;
  std::vector<std::string> digests_;  // [calls]
  nlohmann::ordered_json engine_options_;
  std::vector<bool> is_answered_;                        // [calls]
  std::unordered_map<std::string_view, size_t> idx_of_;  // [custom_id]
  std::unique_ptr<LineFile> file_;
};

}  // namespace bass
