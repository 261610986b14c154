#include "kernels/cuda/emulator/fibers.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <new>
#include <utility>

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
constexpr size_t kStackBytes = 192 << 10;
void leave_stack(void** /*state*/, const void* /*bottom*/, size_t /*size*/) {}
void arrive_on_stack(void* /*state*/, const void** /*from_bottom*/, size_t* /*from_size*/) {}
#endif

// Stacks that begin at the same place of their pages would have all that is hot in the same few sets of the caches.
constexpr size_t kColours = 64;
constexpr size_t kColourBytes = 512 + 64;

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
void* first_stack_pointer(std::byte* /*bottom*/, std::byte* top, void (*function)()) {
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
void* first_stack_pointer(std::byte* bottom, std::byte* top, void (*function)()) {
  auto* context = new (top - sizeof(ucontext_t) / 64 * 64 - 64) ucontext_t();
  BASS_CHECK(::getcontext(context) == 0);
  context->uc_stack.ss_sp = bottom;
  context->uc_stack.ss_size = static_cast<size_t>(reinterpret_cast<std::byte*>(context) - bottom);
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
  std::byte* const bottom = fiber->stack.data() + kPageBytes;
  std::byte* const top = fiber->stack.data() + kStackBytes - fibers_.size() % kColours * kColourBytes;
  fiber->stack_pointer = first_stack_pointer(bottom, top, &Fibers::enter);
}

void Fibers::run(int n, bool descending, Function function, void* argument) {
  BASS_CHECK(current_ == kCaller && n > 0);
  while (fibers_.size() < static_cast<size_t>(n)) {
    auto fiber = std::make_unique<Fiber>();
    make_stack(fiber.get());
    fibers_.push_back(std::move(fiber));
  }
  n_ = n;
  descending_ = descending;
  function_ = function;
  argument_ = argument;
  n_finished_ = 0;
  is_running_.assign(static_cast<size_t>(n), 1);
  switch_to(descending ? n - 1 : 0);
  BASS_CHECK(n_finished_ == n);
}

/// Behind the current one; that one itself where the others have returned, the caller where all have.
int Fibers::next(int begin, int end) const {
  int idx = current_;
  for (int i = begin; i < end; ++i) {
    idx = descending_ ? (idx == begin ? end : idx) - 1 : (idx == end - 1 ? begin : idx + 1);
    if (is_running_[static_cast<size_t>(idx)] != 0) return idx;
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
    is_running_[static_cast<size_t>(idx)] = 0;
    ++n_finished_;
    switch_to(next(0, n_));
  }
}

}  // namespace bass::cuda
