// Calls of the API that come from a file: many at once, answered as a whole.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bass/engine.h"
#include "server/api_answer.h"
#include "server/api_error.h"

namespace bass {

/// What came of a call.
struct BatchAnswer {
  size_t call_idx = 0;
  int http_status = 200;  ///< that a server would have answered with
  std::string body;       ///< an object with its line feed: the answer, or {"error": ...}
};

/// Not thread-safe. Its end cancels what runs.
class BatchRun {
 public:
  /// defaults: of what a call does not say. model: what the model is called. The engine must outlive it.
  BatchRun(Engine* engine, GenerateOptions defaults, std::string model)
      : engine_(engine), defaults_(std::move(defaults)), model_(std::move(model)) {}
  ~BatchRun() { cancel(); }
  BatchRun(const BatchRun&) = delete;
  BatchRun& operator=(const BatchRun&) = delete;

  /// So few samples are under way that another call keeps the batch full. is_timed: it has a time budget, which begins
  /// with it: then others must not wait in front of it.
  [[nodiscard]] bool has_room(bool is_timed) const;
  [[nodiscard]] bool is_idle() const { return running_.empty(); }
  /// Generated so far, by all calls.
  [[nodiscard]] int64_t n_tokens() const { return n_tokens_; }

  /// Begins a call, which `wait` tells the end of; or what a server would refuse it with. id: of its answer
  std::optional<BatchAnswer> begin(size_t call_idx, ApiEndpoint endpoint, std::string_view body, std::string id);
  /// The calls that ended, after waiting for one at most so long.
  std::vector<BatchAnswer> wait(std::chrono::duration<double> timeout);
  /// Has those that run end soon, with status 503; so ends, too, one whose time was up before a sample had a token.
  void cancel() noexcept;

 private:
  struct Running {
    WholeAnswer answer;
    int64_t n_samples = 0;  // that are under way
    size_t n_left = 0;      // requests that are not done
    std::vector<RequestId> ids;
  };
  struct Place {
    size_t call_idx = 0;
    size_t prompt_idx = 0;
  };

  void take(const Event& event, std::vector<BatchAnswer>* ended);

  Engine* engine_;
  GenerateOptions defaults_;
  std::string model_;
  std::shared_ptr<EventQueue> events_ = std::make_shared<EventQueue>();
  std::unordered_map<size_t, Running> running_;  // [call_idx]
  std::unordered_map<RequestId, Place> places_;
  int64_t n_samples_ = 0;  // that are under way
  int64_t n_tokens_ = 0;
};

}  // namespace bass
