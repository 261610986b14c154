#include "cli/bench/turns.h"

#include <algorithm>

namespace bass {

Turns::Turns(int n_engines, std::chrono::duration<double> slice) : slice_(slice) {
  is_active_.resize(static_cast<size_t>(n_engines));
  is_awaited_ = is_active_;
  gates_.reserve(static_cast<size_t>(n_engines));
  for (int i = 0; i < n_engines; ++i) gates_.emplace_back(this, i);
}

void Turns::begin_round() {
  const std::lock_guard lock(mutex_);
  is_active_.assign(is_active_.size(), true);
  is_awaited_ = is_active_;
  cycle_.clear();
  has_begun_ = false;
}

void Turns::be_ready(int engine_idx) {
  const std::lock_guard lock(mutex_);
  is_awaited_[static_cast<size_t>(engine_idx)] = false;
  draw_cycle_if_ready();
  changed_.notify_all();
}

void Turns::end_round(int engine_idx) {
  const std::lock_guard lock(mutex_);
  const auto i = static_cast<size_t>(engine_idx);
  is_active_[i] = is_awaited_[i] = false;
  if (is_turn_of(engine_idx)) {
    pass_on();
  } else {
    std::erase(cycle_, engine_idx);
    draw_cycle_if_ready();
  }
  changed_.notify_all();
}

// Called at the start of each step, so a holder that comes back has ended its last one.
void Turns::wait_for_turn(int idx) {
  std::unique_lock lock(mutex_);
  const auto i = static_cast<size_t>(idx);
  if (!is_active_[i]) return;  // between rounds nobody waits
  if (is_turn_of(idx) && has_begun_ && Clock::now() - begin_ >= slice_) {
    pass_on();
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return is_turn_of(idx) || !is_active_[i]; });
  if (!is_active_[i] || has_begun_) return;
  has_begun_ = true;
  begin_ = Clock::now();
}

void Turns::pass_on() {
  has_begun_ = false;
  last_holder_ = cycle_.back();
  cycle_.pop_back();
  draw_cycle_if_ready();
}

void Turns::draw_cycle_if_ready() {
  if (!cycle_.empty() || std::find(is_awaited_.begin(), is_awaited_.end(), true) != is_awaited_.end()) return;
  for (size_t i = 0; i < is_active_.size(); ++i) {
    if (is_active_[i]) cycle_.push_back(static_cast<int>(i));
  }
  std::shuffle(cycle_.begin(), cycle_.end(), random_);
  if (cycle_.size() > 1 && cycle_.back() == last_holder_) std::swap(cycle_.front(), cycle_.back());
}

}  // namespace bass
