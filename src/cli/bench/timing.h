// Timing of short pieces of work on a thread team.
#pragma once

#include <functional>
#include <vector>

#include "base/thread_team.h"
#include "bass/status.h"

namespace bass {

/// Seconds of one call of a piece of work, over a number of rounds.
struct Timing {
  double best_s = 0;
  double median_s = 0;
};

/// Calls `body` on all threads of the team again and again, with a barrier after each call, for some 30 ms.
Timing time_on_team(ThreadTeam* team, const std::function<void(const TeamContext&)>& body);

/// Each piece's median seconds of a call, over rounds in which all take turns of some milliseconds. seconds(i, n): of n
/// calls of piece i. Error: its first one.
Result<std::vector<double>> time_in_turns(size_t n_pieces, const std::function<Result<double>(size_t, int)>& seconds);

}  // namespace bass
