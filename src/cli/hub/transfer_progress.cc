#include "cli/hub/transfer_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/terminal_text.h"
#include "text/plain_text.h"

namespace bass {
namespace {

/// "4 s", "12:05", "1:02:03"
std::string duration_text(int64_t seconds) {
  constexpr int64_t kMinute = 60, kHour = 3600;
  if (seconds < kMinute) return fmt::format("{} s", seconds);
  if (seconds < kHour) return fmt::format("{}:{:02}", seconds / kMinute, seconds % kMinute);
  return fmt::format("{}:{:02}:{:02}", seconds / kHour, seconds % kHour / kMinute, seconds % kMinute);
}

}  // namespace

std::string progress_text(const std::string& name, int64_t n_done, int64_t n_bytes, double bytes_per_s, int n_columns) {
  constexpr double kMaxLeftS = 360000;
  const int64_t percent = n_bytes > 0 ? n_done * 100 / n_bytes : 100;
  std::string figures = fmt::format("{:3} %  {} of {}", percent, bytes_text(n_done), bytes_text(n_bytes));
  const auto fits = [&](const std::string& more) { return n_columns_of(figures + more) < n_columns; };
  if (bytes_per_s >= 1) {
    const std::string rate = fmt::format("  {}/s", bytes_text(static_cast<int64_t>(bytes_per_s)));
    const double left_s = static_cast<double>(n_bytes - n_done) / bytes_per_s;
    const std::string left =
        fmt::format("  {} left", duration_text(static_cast<int64_t>(std::min(left_s, kMaxLeftS)) + 1));
    if (fits(rate)) figures += rate;
    if (fits(left)) figures += left;
  }
  const std::string cut = cut_to_columns(name, std::max(n_columns - n_columns_of(figures) - 3, 0));
  return cut_to_columns(cut.empty() ? figures : cut + "  " + figures, n_columns - 1);
}

void TransferProgress::show(int64_t n_done) {
  constexpr std::chrono::milliseconds kInterval(100);
  if (n_before_ < 0) n_before_ = n_done;
  n_before_ = std::min(n_before_, n_done);  // it had to start over
  n_done_ = n_done;
  const Clock::time_point now = Clock::now();
  if (!output_->has_cursor() || (is_shown_ && now - shown_ < kInterval)) return;
  shown_ = now;
  is_shown_ = true;
  output_->write("\r\x1b[K" + progress_text(name_, n_done, n_bytes_, bytes_per_s(), output_->size().n_columns));
}

void TransferProgress::finish() {
  clear();
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  output_->write(fmt::format("{}: {} in {:.1f} s\n", one_line_for_terminal(name_), bytes_text(n_bytes_), seconds));
}

void TransferProgress::clear() {
  if (is_shown_) output_->write("\r\x1b[K");
  is_shown_ = false;
}

double TransferProgress::bytes_per_s() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return seconds > 0 ? static_cast<double>(n_done_ - n_before_) / seconds : 0;
}

}  // namespace bass
