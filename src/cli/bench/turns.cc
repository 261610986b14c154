#include "cli/bench/turns.h"

namespace bass {

Turns::Turns(int n_engines, std::chrono::duration<double> slice) : slice_(slice) {
  is_active_.resize(static_cast<size_t>(n_engines));
  gates_.reserve(static_cast<size_t>(n_engines));
  for (int i = 0; i < n_engines; ++i) gates_.emplace_back(this, i);
}

void Turns::begin_round() {
  const std::lock_guard lock(mutex_);
  is_active_.assign(is_active_.size(), true);
  has_begun_ = false;
}

void Turns::end_round(int engine_idx) {
  const std::lock_guard lock(mutex_);
  is_active_[static_cast<size_t>(engine_idx)] = false;
  if (holder_ == engine_idx) pass_on(engine_idx);
  changed_.notify_all();
}

// Called at the start of each step, so a holder that comes back has ended its last one.
void Turns::wait_for_turn(int idx) {
  std::unique_lock lock(mutex_);
  const auto i = static_cast<size_t>(idx);
  if (!is_active_[i]) return;  // between rounds nobody waits
  if (holder_ == idx && has_begun_ && Clock::now() - begin_ >= slice_) {
    pass_on(idx);
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return holder_ == idx || !is_active_[i]; });
  if (!is_active_[i] || has_begun_) return;
  has_begun_ = true;
  begin_ = Clock::now();
}

// To the next active one; a lone one goes on.
void Turns::pass_on(int idx) {
  const int n = static_cast<int>(is_active_.size());
  has_begun_ = false;
  for (int distance = 1; distance <= n; ++distance) {
    const int next = (idx + distance) % n;
    if (!is_active_[static_cast<size_t>(next)]) continue;
    holder_ = next;
    break;
  }
}

}  // namespace bass
