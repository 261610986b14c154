#include "kernels/cuda/emulator/fibers.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <new>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace bass::cuda {
namespace {

constexpr size_t kPageBytes = 4096;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStackBytes = 512 << 10;  // its frames are larger
// AddressSanitizer is told which stack runs: it poisons stacks and unwinds them.
void leave_stack(void** state, const void* bottom, size_t size) { __sanitizer_start_switch_fiber(state, bottom, size); }
void arrive_on_stack(void* state, const void** from_bottom, size_t* from_size) {
  __sanitizer_finish_switch_fiber(state, from_bottom, from_size);
}
#else
constexpr size_t kStackBytes = 128 << 10;
void leave_stack(void** /*state*/, const void* /*bottom*/, size_t /*size*/) {}
void arrive_on_stack(void* /*state*/, const void** /*from_bottom*/, size_t* /*from_size*/) {}
#endif

thread_local Fibers* entering = nullptr;  // whose new stack is entered for the first time

}  // namespace

#if defined(__x86_64__)

// swapcontext would ask the kernel for the signal mask at every switch, a hundred times as long as this takes.
extern "C" void bass_switch_stack(void** save, void* load);
asm(R"(
.text
.globl bass_switch_stack
.hidden bass_switch_stack
.type bass_switch_stack, @function
bass_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size bass_switch_stack, .-bass_switch_stack
)");

namespace {
/// A stack that bass_switch_stack enters at `function`, aligned as after a call.
void* first_stack_pointer(std::byte* top, void (*function)()) {
  auto** place = reinterpret_cast<void**>(top) - 2;
  place[0] = reinterpret_cast<void*>(function);
  place[1] = nullptr;  // a return address that ends backtraces
  return place - 6;    // six registers; the memory is zero
}
void switch_stack(void** save, void* load) { bass_switch_stack(save, load); }
}  // namespace

#else

namespace {
/// The same by the system's means, for other processors.
void* first_stack_pointer(std::byte* top, void (*function)()) {
  auto* context = new (top - sizeof(ucontext_t) / 64 * 64 - 64) ucontext_t();
  BASS_CHECK(::getcontext(context) == 0);
  context->uc_stack.ss_sp = top - kStackBytes + kPageBytes;
  context->uc_stack.ss_size =
      static_cast<size_t>(reinterpret_cast<std::byte*>(context) - (top - kStackBytes)) - kPageBytes;
  ::makecontext(context, function, 0);
  return context;
}
void switch_stack(void** save, void* load) {
  ucontext_t here;  // lies on the stack that waits
  *save = &here;
  ::swapcontext(&here, static_cast<ucontext_t*>(load));
}
}  // namespace

#endif

void Fibers::make_stack(Fiber* fiber) {
  fiber->stack = AlignedBuffer(kStackBytes);
  if (!fiber->stack.ok()) throw std::bad_alloc();
  ::mprotect(fiber->stack.data(), kPageBytes, PROT_NONE);  // an overflow faults and spoils nobody's memory
  fiber->stack_pointer = first_stack_pointer(fiber->stack.data() + kStackBytes, &Fibers::enter);
}

void Fibers::run(int n, bool descending, Function function, void* argument) {
  BASS_CHECK(current_ == kCaller && n > 0);
  while (fibers_.size() < static_cast<size_t>(n)) make_stack(&fibers_.emplace_back());
  n_ = n;
  descending_ = descending;
  function_ = function;
  argument_ = argument;
  n_finished_ = 0;
  for (int i = 0; i < n; ++i) at(i).is_running = true;
  switch_to(descending ? n - 1 : 0);
  BASS_CHECK(n_finished_ == n);
}

int Fibers::next(int idx) const {
  for (int i = 0; i < n_; ++i) {
    idx = descending_ ? (idx == 0 ? n_ - 1 : idx - 1) : (idx == n_ - 1 ? 0 : idx + 1);
    if (fibers_[static_cast<size_t>(idx)].is_running) return idx;
  }
  return kCaller;
}

void Fibers::switch_to(int idx) {
  if (idx == current_) return;
  Fiber& from = at(current_);
  Fiber& to = at(idx);
  came_from_ = current_;
  current_ = idx;
  entering = this;
  if (idx == kCaller) {
    leave_stack(&from.sanitizer_state, caller_stack_, caller_stack_bytes_);
  } else {
    leave_stack(&from.sanitizer_state, to.stack.data(), kStackBytes);
  }
  switch_stack(&from.stack_pointer, to.stack_pointer);
  const void* bottom = nullptr;  // somebody has switched back
  size_t size = 0;
  arrive_on_stack(from.sanitizer_state, &bottom, &size);
}

void Fibers::enter() {
  Fibers& self = *entering;
  const void* bottom = nullptr;
  size_t size = 0;
  arrive_on_stack(nullptr, &bottom, &size);
  if (self.came_from_ == kCaller) {
    self.caller_stack_ = bottom;
    self.caller_stack_bytes_ = size;
  }
  self.serve();
}

void Fibers::serve() {
  for (;;) {
    const int idx = current_;
    function_(argument_, idx);
    at(idx).is_running = false;
    ++n_finished_;
    switch_to(next(idx));
  }
}

}  // namespace bass::cuda
