// Stacks that take turns on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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

  /// Lets the next one of [begin, end) go on, of which the caller is one. From inside a run.
  void yield(int begin, int end) { switch_to(next(begin, end)); }
  [[nodiscard]] int n_finished() const { return n_finished_; }

 private:
  struct Fiber {
    AlignedBuffer stack;
    void* stack_pointer = nullptr;
    void* sanitizer_state = nullptr;
  };
  static constexpr int kCaller = -1;

  [[nodiscard]] int next(int begin, int end) const;
  void switch_to(int idx);
  void make_stack(Fiber* fiber);
  Fiber& at(int idx) { return idx == kCaller ? caller_ : *fibers_[static_cast<size_t>(idx)]; }
  static void enter();
  [[noreturn]] void serve();

  std::vector<std::unique_ptr<Fiber>> fibers_;  // each waits in a function that holds on to its own
  std::vector<uint8_t> is_running_;             // [>= n_]: has not returned from the function
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
