// How long the sequences of a batch take for a token.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "bass/request.h"

namespace bass {

/// When tokens came. Time is counted from when every sequence has its first ones: before, others' prompts are read.
class TokenTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void note(RequestId sequence, size_t n_tokens, Time at = std::chrono::steady_clock::now()) {
    arrivals_[sequence].push_back({at, n_tokens});
  }

  /// Seconds a token of each sequence, in the order in which they ended. Empty where they did not all run together: one
  /// had ended, or as good as ended, when another began.
  [[nodiscard]] std::vector<double> seconds_per_token() const {
    Time begin{};
    for (const auto& [sequence, arrivals] : arrivals_) begin = std::max(begin, arrivals.front().at);
    std::vector<std::pair<Time, double>> ends;
    for (const auto& [sequence, arrivals] : arrivals_) {
      double n_tokens = 0;
      for (const Arrival& arrival : arrivals) {
        if (arrival.at > begin) n_tokens += static_cast<double>(arrival.n_tokens);
      }
      if (n_tokens == 0) return {};
      const std::chrono::duration<double> elapsed = arrivals.back().at - begin;
      ends.emplace_back(arrivals.back().at, elapsed.count() / n_tokens);
    }
    std::sort(ends.begin(), ends.end());
    std::vector<double> seconds;
    for (const auto& [end, per_token] : ends) seconds.push_back(per_token);
    return seconds;
  }

 private:
  struct Arrival {
    Time at;
    size_t n_tokens;
  };
  std::map<RequestId, std::vector<Arrival>> arrivals_;
};

}  // namespace bass
