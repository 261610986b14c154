// Python's lock (the GIL) and its signals, for what takes time.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

namespace bass::python {

constexpr double kPollSeconds = 0.05;  // between looks at Python's signals

// Given back while the engine works. Where the interpreter ends meanwhile, Python up to 3.13 ends a thread that wants
// the lock by unwinding its stack, which pybind11's own guard, a destructor, turns into the end of the process. Here
// such a thread sleeps on until the process has ended, as it does since 3.14.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  // Runs f with the lock.
  template <class F>
  auto locked(F f) {
    lock();
    const auto result = f();
    state_ = PyEval_SaveThread();
    return result;
  }

 private:
  void lock() noexcept {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      while (true) pause();
    }
  }

  PyThreadState* state_;
};

// Whether a signal's handler has raised something. Asked by what works without the lock, as often as it likes.
class Signals {
 public:
  explicit Signals(Unlocked* unlocked) : unlocked_(unlocked) {}

  bool operator()() {
    if (has_raised_) return true;
    const auto now = Clock::now();
    if (now - asked_at_ < kInterval) return false;
    asked_at_ = now;
    has_raised_ = unlocked_->locked([] { return PyErr_CheckSignals() != 0; });
    return has_raised_;
  }
  // With the lock.
  void raise_if_any() const {
    if (has_raised_) throw pybind11::error_already_set();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::duration<double> kInterval{kPollSeconds};

  Unlocked* unlocked_;
  Clock::time_point asked_at_ = Clock::now();
  bool has_raised_ = false;
};

// What work() gives, which runs without the lock and may ask is_stopped().
template <class Work>
auto interruptibly(Work work) -> decltype(work(std::declval<const std::function<bool()>&>())) {
  std::optional<Signals> signals;
  auto result = [&] {
    Unlocked unlocked;
    signals.emplace(&unlocked);
    return work([&] { return (*signals)(); });
  }();
  signals->raise_if_any();
  return result;
}

}  // namespace bass::python
