// What a server has done, for Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "bass/engine.h"

namespace bass {

/// Calls of the API since the server began.
struct CallCounts {
  int64_t running = 0;
  int64_t answered = 0;
  int64_t refused = 0;  ///< with an error, before anything ran
  int64_t broken = 0;   ///< whose caller went away, or that failed
};

/// Prompts of these calls that the engine has.
struct PromptCounts {
  int64_t waiting = 0;  ///< no token of theirs has come: they wait, are read, or score their prompt alone
  int64_t running = 0;
};

/// How often something took how long.
class SecondsHistogram {
 public:
  static constexpr std::array<double, 15> kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                                     0.5,   1,     2,     5,    10,   30,   60};
  void add(double seconds);

  /// How many took at most kBounds[i] seconds; [kBounds.size()]: all.
  [[nodiscard]] std::array<int64_t, kBounds.size() + 1> cumulative() const;
  [[nodiscard]] double sum_s() const { return sum_s_; }

 private:
  std::array<int64_t, kBounds.size() + 1> counts_{};  // of each bound, those above the bound before it
  double sum_s_ = 0;
};

/// How long callers wait.
struct CallTimes {
  SecondsHistogram first_token;  ///< of each prompt that got one: from the call's arrival to its first token
  SecondsHistogram token;        ///< of each sample: from the end of its prompt's reading to its end, by its tokens
  SecondsHistogram call;         ///< from the arrival of a call to the end of its answer
};

/// Text of Prometheus' exposition format 0.0.4.
std::string metrics_text(const CallCounts& calls, const PromptCounts& prompts, const CallTimes& times,
                         const EngineStats& stats);

}  // namespace bass
