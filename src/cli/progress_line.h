// How far something is, on one line of a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "cli/output.h"

namespace bass {

/// "4 s", "12:05", "1:02:03"; at most 100 hours
std::string duration_text(double seconds);

/// "  3:05 left", where n_done of n_done + n_left took so long; empty where nothing is known yet, or nothing is left.
std::string time_left_text(int64_t n_done, int64_t n_left, double seconds);

/// Written over itself ten times a second; nothing where there is no cursor to go back with. The destructor, or
/// `clear`, takes it away: before anything else is written there.
class ProgressLine {
 public:
  /// output: must outlive it
  explicit ProgressLine(Output* output) : output_(output) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// text: what is to be shown in so many columns, at most one less; asked only when it is.
  void show(const std::function<std::string(int n_columns)>& text);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  Output* output_;
  bool is_shown_ = false;
  Clock::time_point next_at_;  // nothing is shown before
};

}  // namespace bass
