#include "kernels/cuda/emulator/emulate.h"

#include <barrier>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/cuda/emulator/fibers.h"

namespace bass::cuda {
namespace {

constexpr int kUndefinedByte = 0xFF;

Index3 block_at(const LaunchShape& shape, int idx) {
  return {idx % shape.grid.x, idx / shape.grid.x % shape.grid.y, idx / shape.grid.x / shape.grid.y};
}

int n_blocks(const LaunchShape& shape) { return shape.grid.x * shape.grid.y * shape.grid.z; }

/// A barrier of fibers: whoever comes last opens it.
struct FiberBarrier {
  int n_arrived = 0;
  uint32_t n_opened = 0;
};

class FiberBlock final : public EmulatedBlock {
 public:
  void run(const EmulatedKernel& body, const void* kernel, const LaunchShape& shape, int block_idx, bool descending) {
    body_ = &body;
    kernel_ = kernel;
    shape_ = &shape;
    block_ = block_at(shape, block_idx);
    n_idle_turns_ = 0;
    fibers_.run(
        shape.n_threads, descending, [](void* self, int thread) { static_cast<FiberBlock*>(self)->run_thread(thread); },
        this);
  }

  void wait_block(int /*thread*/) override { wait(block_barrier_, 0, shape_->n_threads); }
  void wait_warp(int thread) override {
    const int begin = thread / kWarpLen * kWarpLen;
    wait(warp_barriers_[thread / kWarpLen], begin, begin + kWarpLen);
  }

 private:
  void run_thread(int thread) {
    EmulatedContext context(this, block_, shape_->grid, thread, shape_->n_threads);
    body_->run_thread(kernel_, context);
    n_idle_turns_ = 0;
  }

  /// Of the threads [begin, end): the others' turns would change nothing.
  void wait(FiberBarrier& barrier, int begin, int end) {
    if (++barrier.n_arrived == end - begin) {
      barrier.n_arrived = 0;
      ++barrier.n_opened;
      n_idle_turns_ = 0;
      return;
    }
    const uint32_t before = barrier.n_opened;
    while (barrier.n_opened == before) {
      // Everybody waits, and for different barriers or for threads that have returned: a GPU would hang or go wrong.
      BASS_CHECK(++n_idle_turns_ <= 4 * kMaxBlockThreads);
      fibers_.yield(begin, end);
    }
  }

  Fibers fibers_;
  FiberBarrier block_barrier_;
  FiberBarrier warp_barriers_[kMaxBlockThreads / kWarpLen];
  int n_idle_turns_ = 0;
  const EmulatedKernel* body_ = nullptr;
  const void* kernel_ = nullptr;
  const LaunchShape* shape_ = nullptr;
  Index3 block_;
};

class ThreadBlock final : public EmulatedBlock {
 public:
  explicit ThreadBlock(int n_threads) : block_barrier_(n_threads) {
    for (int i = 0; i < n_threads / kWarpLen; ++i) warp_barriers_.emplace_back(kWarpLen);
  }
  void wait_block(int /*thread*/) override { block_barrier_.arrive_and_wait(); }
  void wait_warp(int thread) override { warp_barriers_[static_cast<size_t>(thread / kWarpLen)].arrive_and_wait(); }

 private:
  std::barrier<> block_barrier_;
  std::deque<std::barrier<>> warp_barriers_;
};

void run_as_fibers(const EmulatedKernel& body, const void* kernel, const LaunchShape& shape, bool descending) {
  thread_local FiberBlock block;
  thread_local AlignedBuffer shared;
  if (shared.size_bytes() < shape.shared_bytes) shared = AlignedBuffer(shape.shared_bytes);
  block.shared_memory = shared.data();
  block.shared_bytes = shape.shared_bytes;
  const int n = n_blocks(shape);
  for (int i = 0; i < n; ++i) {
    if (shape.shared_bytes > 0) std::memset(shared.data(), kUndefinedByte, shape.shared_bytes);
    block.run(body, kernel, shape, descending ? n - 1 - i : i, descending);
  }
}

void run_as_threads(const EmulatedKernel& body, const void* kernel, const LaunchShape& shape) {
  const AlignedBuffer shared(shape.shared_bytes);
  ThreadBlock block(shape.n_threads);
  block.shared_memory = shared.data();
  block.shared_bytes = shape.shared_bytes;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < shape.n_threads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < n_blocks(shape); ++i) {
        block.wait_block(thread);
        if (thread == 0 && shape.shared_bytes > 0) std::memset(shared.data(), kUndefinedByte, shape.shared_bytes);
        block.wait_block(thread);
        EmulatedContext context(&block, block_at(shape, i), shape.grid, thread, shape.n_threads);
        body.run_thread(kernel, context);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Threads that never meet need no stacks.
void run_one_by_one(const EmulatedKernel& body, const void* kernel, const LaunchShape& shape, bool descending) {
  const int n = n_blocks(shape);
  for (int i = 0; i < n; ++i) {
    const Index3 block = block_at(shape, descending ? n - 1 - i : i);
    for (int t = 0; t < shape.n_threads; ++t) {
      EmulatedContext context(nullptr, block, shape.grid, descending ? shape.n_threads - 1 - t : t, shape.n_threads);
      body.run_thread(kernel, context);
    }
  }
}

}  // namespace

EmulatorOptions::EmulatorOptions()
#if defined(__SANITIZE_THREAD__)
    : mode(EmulatorMode::kThreads)
#else
    : mode(EmulatorMode::kFibers)
#endif
{
}

void emulate(const EmulatedKernel& body, const void* kernel, const LaunchShape& shape, const EmulatorOptions& options) {
  BASS_CHECK(shape.n_threads > 0 && shape.n_threads % kWarpLen == 0 && shape.n_threads <= body.max_threads);
  BASS_CHECK(body.max_threads <= kMaxBlockThreads && n_blocks(shape) > 0);
  BASS_CHECK(shape.grid.y < 65536 && shape.grid.z < 65536);  // CUDA's limits
  const bool descending = options.order == EmulatorOrder::kDescending;
  if (options.mode == EmulatorMode::kThreads && body.cooperates) {
    run_as_threads(body, kernel, shape);
  } else if (body.cooperates) {
    run_as_fibers(body, kernel, shape, descending);
  } else {
    run_one_by_one(body, kernel, shape, descending);
  }
}

}  // namespace bass::cuda
