#include "cli/hub/transfer_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/terminal_text.h"
#include "text/plain_text.h"

namespace bass {

std::string progress_text(const std::string& name, int64_t n_done, int64_t n_bytes, double bytes_per_s, int n_columns) {
  const int64_t percent = n_bytes > 0 ? n_done * 100 / n_bytes : 100;
  std::string figures = fmt::format("{:3} %  {} of {}", percent, bytes_text(n_done), bytes_text(n_bytes));
  const auto fits = [&](const std::string& more) { return n_columns_of(figures + more) < n_columns; };
  if (bytes_per_s >= 1) {
    const std::string rate = fmt::format("  {}/s", bytes_text(static_cast<int64_t>(bytes_per_s)));
    const std::string left = time_left_text(static_cast<int64_t>(bytes_per_s), n_bytes - n_done, 1);
    if (fits(rate)) figures += rate;
    if (fits(left)) figures += left;
  }
  const std::string cut = cut_to_columns(name, std::max(n_columns - n_columns_of(figures) - 3, 0));
  return cut_to_columns(cut.empty() ? figures : cut + "  " + figures, n_columns - 1);
}

void TransferProgress::show(int64_t n_done) {
  if (n_before_ < 0) n_before_ = n_done;
  n_before_ = std::min(n_before_, n_done);  // it had to start over
  n_done_ = n_done;
  line_.show([this](int n_columns) { return progress_text(name_, n_done_, n_bytes_, bytes_per_s(), n_columns); });
}

void TransferProgress::finish() {
  line_.clear();
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  output_->write(fmt::format("{}: {} in {:.1f} s\n", one_line_for_terminal(name_), bytes_text(n_bytes_), seconds));
}

double TransferProgress::bytes_per_s() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return seconds > 0 ? static_cast<double>(n_done_ - n_before_) / seconds : 0;
}

}  // namespace bass
