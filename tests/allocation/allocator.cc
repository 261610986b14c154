#include "allocation/allocator.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> n_until_failure{0};  // allocations until the one that fails; 0: none fails
std::atomic<bool> all_fail_after{false};
std::atomic<int64_t> n_failed{0};
std::atomic<int64_t> n_made{0};
std::atomic<int64_t> n_live{0};

bool must_fail() {
  if (n_until_failure.load(std::memory_order_relaxed) <= 0) return false;
  if (n_until_failure.fetch_sub(1, std::memory_order_relaxed) != 1) return false;
  if (all_fail_after.load(std::memory_order_relaxed)) n_until_failure.store(1, std::memory_order_relaxed);
  n_failed.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void* allocate(size_t size, size_t alignment) {
  void* memory = nullptr;
  n_made.fetch_add(1, std::memory_order_relaxed);
  if (!must_fail() && posix_memalign(&memory, alignment, size) == 0) n_live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void* allocate_or_throw(size_t size, size_t alignment) {
  if (void* memory = allocate(size, alignment)) return memory;
  throw std::bad_alloc();
}

void release(void* memory) {
  if (memory != nullptr) n_live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

constexpr size_t kAlignment = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t size) { return allocate_or_throw(size, kAlignment); }
void* operator new[](size_t size) { return allocate_or_throw(size, kAlignment); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, kAlignment); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size, kAlignment); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }

namespace bass::testing {

int64_t n_allocations() { return n_made.load(); }
int64_t n_live_allocations() { return n_live.load(); }
int64_t n_failed_allocations() { return n_failed.load(); }

Fault::Fault(int64_t n, bool all_after) {
  n_failed = 0;
  all_fail_after = all_after;
  n_until_failure = n;
}
Fault::~Fault() { n_until_failure = 0; }

}  // namespace bass::testing
