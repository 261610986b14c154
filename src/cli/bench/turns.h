// Engines of one process that run their steps in turns of some milliseconds, so that a disturbance of the machine meets
// all of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <vector>

#include "engine/step_gate.h"

namespace bass {

/// Everybody has one turn in each cycle, in an order drawn for it, and nobody two in a row while others are active:
/// what an engine leaves in the caches meets all others alike. Thread-safe. Outlives the engines that it was given to.
class Turns {
 public:
  /// slice: what an engine runs at least before another one may; a step is never interrupted.
  Turns(int n_engines, std::chrono::duration<double> slice);

  [[nodiscard]] StepGate* gate(int engine_idx) { return &gates_[static_cast<size_t>(engine_idx)]; }
  /// All engines get something to do from now on. None takes a step until all have it: each begins with all of it.
  void begin_round();
  /// The engine has what it is to do in this round.
  void be_ready(int engine_idx);
  /// The engine has nothing left to do in this round: the others no longer wait for it.
  void end_round(int engine_idx);

 private:
  using Clock = std::chrono::steady_clock;

  class Gate final : public StepGate {
   public:
    Gate(Turns* turns, int idx) : turns_(turns), idx_(idx) {}
    void enter() override { turns_->wait_for_turn(idx_); }

   private:
    Turns* turns_;
    int idx_;
  };

  void wait_for_turn(int idx);
  void pass_on();
  void draw_cycle_if_ready();
  [[nodiscard]] bool is_turn_of(int idx) const { return !cycle_.empty() && cycle_.back() == idx; }

  std::chrono::duration<double> slice_;
  std::vector<Gate> gates_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<bool> is_active_;
  std::vector<bool> is_awaited_;  // active, and not ready
  std::vector<int> cycle_;        // engines that have not had their turn, the last one has it; empty: none may run
  int last_holder_ = -1;
  std::minstd_rand random_{std::random_device()()};
  bool has_begun_ = false;
  Clock::time_point begin_;  // of the holder's turn, from its first step on
};

}  // namespace bass
