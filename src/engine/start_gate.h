// Requests that begin together, however long their thread takes to submit them.
#pragma once

#include <condition_variable>
#include <mutex>

#include "engine/step_gate.h"

namespace bass {

/// Holds an engine's steps while it is closed; open at first. To be closed while the engine has nothing to do: a step
/// that has found it open takes what is submitted until it begins. Thread-safe.
class StartGate : public StepGate {
 public:
  [[nodiscard]] bool is_open() override {
    const std::lock_guard lock(mutex_);
    return is_open_;
  }
  void enter() override {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_open_; });
  }
  void close() { set_open(false); }
  void open() { set_open(true); }

 private:
  void set_open(bool is_open) {
    const std::lock_guard lock(mutex_);
    is_open_ = is_open;
    opened_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = true;
};

/// Closes a gate for as long as it lives; null: there is none.
class ClosedGate {
 public:
  explicit ClosedGate(StartGate* gate) : gate_(gate) {
    if (gate_ != nullptr) gate_->close();
  }
  ~ClosedGate() {
    if (gate_ != nullptr) gate_->open();
  }
  ClosedGate(const ClosedGate&) = delete;
  ClosedGate& operator=(const ClosedGate&) = delete;

 private:
  StartGate* gate_;
};

}  // namespace bass
