// How long a thing takes on a machine that others use, too: by the shorter of its latest times.
//
// POD, as StepCosts, of which it is a part.
#pragma once

#include <cstdint>

namespace bass {

/// Newest first.
struct RecentTimes {
  static constexpr int kMax = 12;
  float seconds[kMax] = {};
  int32_t n = 0;
};

/// n_kept: at most so many of the earlier ones stay.
void add_time(float seconds, int n_kept, RecentTimes* times);

/// The time below which three in ten of them are: others' work makes times longer, never shorter, so the shorter ones
/// differ least. Any such part of the times grows in proportion where the thing itself takes longer, and unlike the
/// shortest it does not depend on how many there are. 0 where there is none.
float typical_seconds(const RecentTimes& times);

}  // namespace bass
