#include "cli/progress_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace bass {

std::string duration_text(double seconds) {
  constexpr int64_t kMinute = 60, kHour = 3600;
  constexpr double kMost = 100.0 * kHour;
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, kMost));
  if (whole < kMinute) return fmt::format("{} s", whole);
  if (whole < kHour) return fmt::format("{}:{:02}", whole / kMinute, whole % kMinute);
  return fmt::format("{}:{:02}:{:02}", whole / kHour, whole % kHour / kMinute, whole % kMinute);
}

std::string time_left_text(int64_t n_done, int64_t n_left, double seconds) {
  if (n_done <= 0 || n_left <= 0 || seconds <= 0) return "";
  const double left_s = static_cast<double>(n_left) * seconds / static_cast<double>(n_done);
  return fmt::format("  {} left", duration_text(left_s + 1));  // rounded up: it is not over yet
}

void ProgressLine::show(const std::function<std::string(int n_columns)>& text) {
  constexpr std::chrono::milliseconds kInterval(100);
  const Clock::time_point now = Clock::now();
  if (!output_->has_cursor() || now < next_at_) return;
  next_at_ = now + kInterval;
  is_shown_ = true;
  output_->write("\r\x1b[K" + text(output_->size().n_columns));
}

void ProgressLine::clear() {
  if (!is_shown_) return;
  output_->write("\r\x1b[K");
  is_shown_ = false;
  next_at_ = {};
}

}  // namespace bass
