#include "cli/bench/turns.h"

#include <algorithm>

namespace bass {

Turns::Turns(int n_engines, std::chrono::duration<double> slice) : slice_(slice) {
  is_active_.resize(static_cast<size_t>(n_engines));
  gates_.reserve(static_cast<size_t>(n_engines));
  for (int i = 0; i < n_engines; ++i) gates_.emplace_back(this, i);
}

void Turns::begin_round() {
  const std::lock_guard lock(mutex_);
  is_active_.assign(is_active_.size(), true);
  draw_cycle();
}

void Turns::end_round(int engine_idx) {
  const std::lock_guard lock(mutex_);
  is_active_[static_cast<size_t>(engine_idx)] = false;
  if (is_turn_of(engine_idx)) {
    pass_on();
  } else {
    std::erase(cycle_, engine_idx);
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
  cycle_.pop_back();
  if (cycle_.empty()) draw_cycle();
}

void Turns::draw_cycle() {
  has_begun_ = false;
  cycle_.clear();
  for (size_t i = 0; i < is_active_.size(); ++i) {
    if (is_active_[i]) cycle_.push_back(static_cast<int>(i));
  }
  std::shuffle(cycle_.begin(), cycle_.end(), random_);
}

}  // namespace bass
