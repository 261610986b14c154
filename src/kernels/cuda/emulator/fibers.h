// Stacks that take turns on one thread.
#pragma once

#include <cstddef>
#include <deque>

#include "base/aligned_buffer.h"

namespace bass::cuda {

/// Runs a function once for each of n indices, each on a stack of its own, in turns: a function that calls `yield` goes
/// on when the others have had theirs. One thread uses it; stacks are kept for the next run.
class Fibers {
 public:
  using Function = void (*)(void* argument, int idx);

  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Calls function(argument, i) for i in [0, n), turns in ascending or descending order.
  void run(int n, bool descending, Function function, void* argument);

  /// Lets the next one go on. From inside a run.
  void yield() { switch_to(next(current_)); }
  [[nodiscard]] int n_finished() const { return n_finished_; }

 private:
  struct Fiber {
    AlignedBuffer stack;
    void* stack_pointer = nullptr;
    void* sanitizer_state = nullptr;
    bool is_running = false;  // has not returned from the function
  };
  static constexpr int kCaller = -1;

  [[nodiscard]] int next(int idx) const;
  void switch_to(int idx);
  void make_stack(Fiber* fiber);
  Fiber& at(int idx) { return idx == kCaller ? caller_ : fibers_[static_cast<size_t>(idx)]; }
  static void enter();
  [[noreturn]] void serve();

  std::deque<Fiber> fibers_;  // they stay where they are: each waits in a function that holds on to its own
  Fiber caller_;
  int n_ = 0;
  int current_ = kCaller;
  int n_finished_ = 0;
  bool descending_ = false;
  Function function_ = nullptr;
  void* argument_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  int came_from_ = kCaller;
};

}  // namespace bass::cuda
