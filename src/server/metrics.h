// What a server has done, for Prometheus.
#pragma once

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

/// Text of Prometheus' exposition format 0.0.4.
std::string metrics_text(const CallCounts& calls, const EngineStats& stats);

}  // namespace bass
