// Timing of short pieces of work on a thread team.
#pragma once

#include <functional>

#include "base/thread_team.h"

namespace bass {

/// Seconds of one call of a piece of work, over a number of rounds.
struct Timing {
  double best_s = 0;
  double median_s = 0;
};

/// Calls `body` on all threads of the team again and again, with a barrier after each call, for some 30 ms.
Timing time_on_team(ThreadTeam* team, const std::function<void(const TeamContext&)>& body);

}  // namespace bass
