#include "base/thread_team.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/control_group.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bass {
namespace {

using Clock = std::chrono::steady_clock;

// Barriers inside a step are microseconds apart, steps are some hundred microseconds apart: spinning covers both. On a
// shared host a thread may be held up for milliseconds. Whoever slept meanwhile would have to be woken, which takes a
// host that is busy just as long, and then the others sleep: so threads yield, for longer than that, before they sleep.
// Not where a yield has let another program of this system run: each one more puts the thread behind all that wait, and
// who sleeps is let in sooner when there is work.
constexpr int kSpins = 2000;
constexpr auto kMaxYielding = std::chrono::milliseconds(5);
constexpr auto kLongYield = std::chrono::microseconds(50);
constexpr auto kCrowdedFor = std::chrono::milliseconds(10);

void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Since when the calling thread looked last, somebody else was run in its place: not only the whole system was halted.
bool was_switched() {
  thread_local int64_t n_known = 0;
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return false;
  return std::exchange(n_known, usage.ru_nivcsw) != usage.ru_nivcsw;
}

/// Yields until `has_changed`, or sleeping is better.
template <class HasChanged>
bool yield_until(HasChanged has_changed) {
  thread_local Clock::time_point crowded_until{};
  Clock::time_point now = Clock::now();
  const Clock::time_point give_up = now + kMaxYielding;
  while (now < give_up && now >= crowded_until) {
    if (has_changed()) return true;
    std::this_thread::yield();
    const Clock::time_point begin = std::exchange(now, Clock::now());
    if (now - begin > kLongYield && was_switched()) crowded_until = now + kCrowdedFor;
  }
  return has_changed();
}

// Waits until `value` differs from `old_value`: spin, yield, then sleep on the futex.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old_value) {
  const auto has_changed = [&] { return value.load(std::memory_order_acquire) != old_value; };
  for (int i = 0; i < kSpins; ++i) {
    if (has_changed()) return;
    cpu_relax();
  }
  if (yield_until(has_changed)) return;
  while (!has_changed()) value.wait(old_value, std::memory_order_acquire);
}

}  // namespace

void SpinBarrier::wait() {
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (n_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_threads_) {
    n_arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  wait_for_change(generation_, generation);
}

ThreadTeam::ThreadTeam(int n_threads) : n_threads_(n_threads), barrier_(n_threads) {
  BASS_CHECK(n_threads >= 1);
  threads_.reserve(static_cast<size_t>(n_threads) - 1);
  try {
    for (int i = 1; i < n_threads; ++i) threads_.emplace_back([this, i] { worker_loop(i); });
  } catch (...) {  // the system has no thread left: end those that run, then let the caller know
    stop();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  stop_.store(true, std::memory_order_release);
  job_id_.fetch_add(1, std::memory_order_release);
  job_id_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::run(const std::function<void(const TeamContext&)>& body) {
  const TeamContext context(0, n_threads_, &barrier_);
  body_ = &body;
  if (n_threads_ > 1) {
    job_id_.fetch_add(1, std::memory_order_release);
    job_id_.notify_all();
  }
  run_share(context);
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadTeam::run_share(const TeamContext& context) {
  try {
    (*body_)(context);
  } catch (...) {  // memory that a thread lacks; the others are still at work
    const std::lock_guard lock(error_mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
  context.barrier();  // all threads have left `body_`
}

void ThreadTeam::worker_loop(int thread_idx) {
  const TeamContext context(thread_idx, n_threads_, &barrier_);
  for (uint32_t seen_job_id = 0;;) {
    wait_for_change(job_id_, seen_job_id);
    // A new job starts only after this thread has passed the last one's barrier, so none is skipped.
    ++seen_job_id;
    if (stop_.load(std::memory_order_acquire)) return;
    run_share(context);
  }
}

namespace {

// The mask must be as large as the kernel's, which nothing tells.
int processors_of_mask() {
  constexpr int kMaxProcessors = 1 << 16;
  for (int n = CPU_SETSIZE; n <= kMaxProcessors; n *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(n), [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t n_bytes = CPU_ALLOC_SIZE(n);
    if (set == nullptr) break;
    CPU_ZERO_S(n_bytes, set.get());
    if (sched_getaffinity(0, n_bytes, set.get()) == 0) return CPU_COUNT_S(n_bytes, set.get());
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int available_threads() {
  // More threads than the group has processors' time would stop in turns, and the others wait for them.
  const int n_processors = std::max(1, processors_of_mask());
  const double allowed = group_processors().value_or(n_processors);
  return allowed < n_processors ? std::max(1, static_cast<int>(allowed)) : n_processors;
}

}  // namespace bass
