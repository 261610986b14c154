// What the steps of a machine take, for simulations: of this one as it was measured, or of one that we don't have.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace bass {

/// A measured point of a curve.
struct CostPoint {
  double n = 0;
  double seconds = 0;
};

struct MachineCosts {
  std::vector<CostPoint> step;        // by rows of the main model's pass, ascending; at least one
  std::vector<CostPoint> draft_pass;  // by the sequences that a pass of the draft model drafts for; empty: no model
  double context_token_s = 0;         // that each token of context of each sequence adds to a step
  double seen_token_s = 0;            // and for each row of the sequence beside its first free_rows ones
  double free_rows = 1;               // computing for so many hides behind the reading
  double catch_up_token_s = 0;        // that the draft model reads a token of text for, where it had not followed it
  bool can_look = true;               // at drafted tokens without rows for them (DraftCandidate::can_look)
};

/// Of a step that reads n_read tokens of context, and whose rows see n_seen, by the sum over the rows.
double attention_seconds(const MachineCosts& machine, double n_read, double n_seen);

/// Linear between points, flat before the first, and behind the last along the last slope, if that rises. 0 without
/// points.
double seconds_at(std::span<const CostPoint> curve, double n);

/// The points without what disturbances have done to single ones: medians of five neighbours, then the nearest curve
/// (in squares) that never falls. For tables that were measured while other work was done.
std::vector<CostPoint> without_disturbances(std::span<const CostPoint> points);

}  // namespace bass
