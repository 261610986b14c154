// What all parts of a running template share: its budgets, its first error, the making of values.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bass/status.h"
#include "text/jinja/value.h"

namespace bass::jinja {

/// What a template may use. Going beyond is an error, whatever the template does.
struct Limits {
  int64_t max_steps = 5'000'000;          ///< expressions and statements, and work on long values in proportion
  int64_t max_bytes = int64_t{16} << 20;  ///< of all values and texts that are alive, beyond 8 times the input
  int max_eval_depth = 500;               ///< of expressions, blocks and macro calls in each other
  int max_value_depth = 100;              ///< of containers in containers
};

/// Errors stick: after the first one nothing is made any more, every function gives some value back at once, and loops
/// end. So code that uses a Runtime goes on without looking and only loops and what has an effect ask `ok`.
class Runtime {
 public:
  Runtime(const Limits& limits, std::time_t now) : limits_(limits), now_(now), memory_(limits.max_bytes) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] bool ok() const { return status_.ok(); }
  [[nodiscard]] const Status& status() const { return status_; }
  /// Keeps the message with the current line, unless there is an error already. Gives none.
  Value fail(std::string_view message);

  [[nodiscard]] int line() const { return line_; }
  void set_line(int line) { line_ = line; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] std::time_t now() const { return now_; }

  /// Uses up steps. False when there is an error, this one included.
  bool spend(int64_t n_steps);
  /// The same for a look through names that are compared one after the other.
  bool spend_on_names(size_t n_names) { return spend(static_cast<int64_t>(n_names / kNamesPerStep)); }
  /// The same for work on each character of a text.
  bool spend_on_text(size_t n_bytes) { return spend(static_cast<int64_t>(n_bytes / kTextBytesPerStep)); }
  /// Looking for n_wanted bytes in n_bytes compares all of them at every place, where the text is a hostile one.
  bool spend_on_search(size_t n_bytes, size_t n_wanted) {
    return spend_on_text(n_bytes) && spend(static_cast<int64_t>(n_bytes * n_wanted / kComparedBytesPerStep));
  }
  /// Whether so many more bytes may be alive; an error if not.
  bool has_room(int64_t n_bytes);
  /// The same, and uses up steps in proportion. To be asked before something is made that may be far larger than what
  /// it is made of.
  bool reserve(int64_t n_bytes) { return has_room(n_bytes) && spend(n_bytes / kBytesPerStep); }
  [[nodiscard]] Memory& memory() { return memory_; }

  Value string(std::string bytes);
  Value list(std::vector<Value> items) { return sequence(Kind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::kTuple, std::move(items)); }
  Value generator(std::vector<Value> items) { return sequence(Kind::kGenerator, std::move(items)); }
  Value sequence(Kind kind, std::vector<Value> items, std::string name = {});
  Value dict(std::vector<std::pair<Value, Value>> entries);
  Value function(NativeFunction call, Value self);
  /// `what` completes the error of using the value: "'x' is undefined".
  Value undefined(std::string what);
  /// What the template is given is made: values may take `factor` times as many bytes beyond the limit.
  void allow_for_input(int64_t factor) { memory_.extend(factor); }
  /// Takes what may be part of a cycle: it lives until the template has ended.
  Value keep(std::unique_ptr<Object> object);

 private:
  static constexpr int64_t kBytesPerStep = 64;
  static constexpr size_t kNamesPerStep = 8;
  static constexpr size_t kTextBytesPerStep = 8;
  static constexpr size_t kComparedBytesPerStep = 4096;

  /// Charges the object, and checks its depth.
  Value made(const std::shared_ptr<Object>& object, int64_t n_bytes);

  Limits limits_;
  std::time_t now_;
  int line_ = 1;
  int64_t n_steps_ = 0;
  Status status_;
  Memory memory_;
  std::vector<std::unique_ptr<Object>> kept_;
};

}  // namespace bass::jinja
