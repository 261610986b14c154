// How far a download is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/output.h"
#include "cli/progress_line.h"

namespace bass {

/// "model.gguf   45 %  42.1 of 94.0 MiB  12.3 MiB/s  4 s left", in so many columns: the name is cut first.
std::string progress_text(const std::string& name, int64_t n_done, int64_t n_bytes, double bytes_per_s, int n_columns);

/// One file's line: written over itself on a terminal, and once at the end, with what it took.
class TransferProgress {
 public:
  TransferProgress(Output* output, std::string name, int64_t n_bytes)
      : output_(output), line_(output), name_(std::move(name)), n_bytes_(n_bytes) {}

  /// n_done: of the whole file; what the first call says was there before.
  void show(int64_t n_done);
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] double bytes_per_s() const;

  Output* output_;
  ProgressLine line_;
  std::string name_;
  int64_t n_bytes_;
  int64_t n_before_ = -1;
  int64_t n_done_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace bass
