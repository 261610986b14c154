// A team of threads that runs one function SPMD: every thread runs the whole function and meets the others at
// barriers. There is no fork/join an operation: a forward pass is one `run`.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace bass {

/// A contiguous range of work items.
struct WorkRange {
  int begin = 0;
  int end = 0;
};

/// Meeting point of a fixed number of threads. Spins for a short while, then yields, then sleeps, so that it stays
/// correct and fair with more threads than cores.
class SpinBarrier {
 public:
  explicit SpinBarrier(int n_threads) : n_threads_(n_threads) {}
  void wait();

 private:
  const int n_threads_;
  alignas(64) std::atomic<int> n_arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

/// Pieces of work that are taken. Alone in its cache line.
class WorkCounter {
 public:
  /// Before it is shared out again: when no thread takes any more and none has begun to.
  void reset() { next_.store(0, std::memory_order_relaxed); }
  int take() { return next_.fetch_add(1, std::memory_order_relaxed); }
  /// Whether take would give one of n pieces. Costs less where it would not.
  [[nodiscard]] bool has_any_of(int n) const { return next_.load(std::memory_order_relaxed) < n; }

 private:
  alignas(64) std::atomic<int> next_{0};
};

/// What one thread of a team knows while it runs.
class TeamContext {
 public:
  TeamContext(int thread_idx, int n_threads, SpinBarrier* barrier)
      : thread_idx_(thread_idx), n_threads_(n_threads), barrier_(barrier) {}

  [[nodiscard]] int thread_idx() const { return thread_idx_; }
  [[nodiscard]] int n_threads() const { return n_threads_; }

  /// Returns when all threads of the team have arrived; what they wrote before is visible after.
  void barrier() const {
    if (n_threads_ > 1) barrier_->wait();
  }

  /// This thread's contiguous part of n_items (sizes differ by at most one).
  [[nodiscard]] WorkRange share(int n_items) const { return share_of(n_items, thread_idx_, n_threads_); }
  [[nodiscard]] static WorkRange share_of(int n_items, int thread_idx, int n_threads) {
    const auto n = static_cast<int64_t>(n_items);
    return {static_cast<int>(n * thread_idx / n_threads), static_cast<int>(n * (thread_idx + 1) / n_threads)};
  }

  /// Calls work(range) on all threads until each item has been in somebody's range: first three quarters of a thread's
  /// share, then what is left of all shares in small pieces, by whoever has time. A thread that a busy host, another
  /// program or a slower core holds up would else keep all others waiting. `counter` was reset.
  template <class Work>
  void share_out(int n_items, WorkCounter* counter, Work work) const {
    constexpr int kPiecesOfThread = 4;
    const auto rest_of = [&](int thread_idx) {
      const WorkRange share = share_of(n_items, thread_idx, n_threads_);
      return WorkRange{share.end - (share.end - share.begin) / 4, share.end};
    };
    if (n_threads_ == 1) return work(WorkRange{0, n_items});
    if (const WorkRange own{share(n_items).begin, rest_of(thread_idx_).begin}; own.begin < own.end) work(own);
    const int max_rest = (n_items + n_threads_ - 1) / n_threads_ / 4;
    const int piece = std::max((max_rest + kPiecesOfThread - 1) / kPiecesOfThread, 1);
    const int n_pieces = (max_rest + piece - 1) / piece * n_threads_;
    for (int i; (i = counter->take()) < n_pieces;) {
      const WorkRange rest = rest_of(i % n_threads_);
      const int begin = rest.begin + i / n_threads_ * piece;
      if (begin < rest.end) work(WorkRange{begin, std::min(begin + piece, rest.end)});
    }
  }

 private:
  int thread_idx_;
  int n_threads_;
  SpinBarrier* barrier_;
};

/// Owns n_threads - 1 threads; the caller of `run` is the remaining one (thread 0).
/// `run` must not be called from two threads at once. Idle threads sleep.
class ThreadTeam {
 public:
  /// n_threads >= 1. Throws std::system_error when the system cannot start that many.
  explicit ThreadTeam(int n_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int n_threads() const { return n_threads_; }

  /// Runs `body` on every thread of the team and returns when all have finished. What `body` throws, the first of
  /// several, is thrown then. One that waits at barriers of its own must not throw: the others would wait for ever.
  void run(const std::function<void(const TeamContext&)>& body);

 private:
  void worker_loop(int thread_idx);
  void run_share(const TeamContext& context);
  void stop();

  const int n_threads_;
  SpinBarrier barrier_;
  const std::function<void(const TeamContext&)>* body_ = nullptr;
  std::mutex error_mutex_;
  std::exception_ptr error_;  // of the job that runs
  alignas(64) std::atomic<uint32_t> job_id_{0};
  alignas(64) std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Processors that this process may run on: its affinity mask's, or as many whole ones as its control group's quota of
/// time is worth, if those are fewer (a container's).
int available_threads();
/// n_wanted; all available ones where it is 0.
inline int threads_or_all(int n_wanted) { return n_wanted > 0 ? n_wanted : available_threads(); }

}  // namespace bass
