// How `goodput` (goodput.h) finds out whether drafts that it does not use have become worth it.
//
// A look is a token that is drafted to see what drafts are worth: a device that can does it without a row for it,
// others verify it. A try is verified to see what steps cost as well, and drafts what would pay if steps were cheaper
// than is believed. Together they take a hundredth of the time at most, but for the first tries, which are dense, and
// looks behind one that was a surprise. Where drafts pay, regular steps are taken now and then. Pure functions of POD
// state, which compile for a GPU as well.
#pragma once

#include <algorithm>
#include <span>

#include "speculation/policies/goodput_options.h"

namespace bass::goodput {

// Parts of the time, of devices that verify looks and of those that need not.
inline constexpr double kVerifiedLookShare = 0.009;
inline constexpr double kTryShare = 0.001;
inline constexpr double kFreeLookShare = 0.005;
inline constexpr double kTryBesideFreeLooksShare = 0.005;
inline constexpr double kRegularShare = 0.01;
inline constexpr int kFirstLook = 12;   // steps without a draft before any look
inline constexpr double kSurprise = 4;  // so many times sooner where the last look found a draft better than believed
inline constexpr int kFirstSteps = 2;   // regular ones, before anything is believed of them
inline constexpr double kLeastOfBelief = 0.7;  // what a regular step takes of what is believed of it, at least
inline constexpr int kNearRows = 4;            // steps of a quarter more or fewer rows tell what a regular one takes
inline constexpr int kFirstCheck = 128;  // steps without a try, where an earlier run has measured what would be tried

// What drafts add to a regular step.
struct ProbeCost {
  double seconds = 0;
  int n_unread = 0;  // tokens that the draft model has to catch up with
};

// Of those that the candidates are to make.
BASS_HD_CALL ProbeCost planned_cost(const Batch& batch) {
  ProbeCost cost;
  StepLoad load = batch.regular;
  int n_drafts = 0;
  for (const DraftCandidate& candidate : batch.candidates) {
    if (!candidate.is_free_look()) {
      load.n_rows += candidate.len;
      load.n_seen += static_cast<double>(candidate.len) * candidate.context_len;
    }
    if (candidate.len == 0 || candidate.source != DraftSource::kModel) continue;
    n_drafts += candidate.len;
    cost.n_unread += n_to_catch_up(candidate.n_unread);
  }
  cost.seconds = step_seconds(batch, load) - step_seconds(batch, batch.regular) +
                 (n_drafts > 0 ? batch.sizes.pass_seconds(n_drafts) : 0) +
                 predicted_catch_up_seconds(batch.costs, cost.n_unread);
  return cost;
}

// Of an option, on average.
BASS_HD_CALL double option_cost(const Batch& batch, const Option& option) {
  StepLoad load = batch.regular;
  load.n_seen += option.n_more_seen;
  const auto believed = [&](const StepLoad& at) { return step_seconds(batch, at); };
  return seconds_with(load, option.n_more, believed) - step_seconds(batch, batch.regular) + option.passes_s +
         option.reading_s;
}

BASS_HD_CALL bool has_free_looks(const Batch& batch) {
  return std::any_of(batch.candidates.begin(), batch.candidates.end(),
                     [](const DraftCandidate& candidate) { return candidate.can_look; });
}

BASS_HD_CALL void forget_plan(std::span<DraftCandidate> candidates) {
  for (DraftCandidate& candidate : candidates) {
    candidate.len = 0;
    candidate.is_look = false;
  }
}

// A token for some of the candidates. catches_up: for one that the draft model has to read much for, too
BASS_HD_CALL void plan_probe(const Batch& batch, bool is_look, bool catches_up) {
  probe(batch.learnt, batch.candidates, catches_up);
  for (DraftCandidate& candidate : batch.candidates) candidate.is_look = is_look && candidate.len > 0;
}

// Steps without a draft after which drafts are looked at again, where that is what the candidates are to draft: the
// cheaper it is, the sooner, and sooner where the last look was a surprise: at once, where there is little to read.
BASS_HD_CALL double steps_between_looks(const Batch& batch, const ProbeCost& cost) {
  const bool is_surprise =
      std::any_of(batch.candidates.begin(), batch.candidates.end(),
                  [&](const DraftCandidate& candidate) { return has_turned_good(batch.learnt, candidate.source); });
  if (is_surprise && cost.n_unread == 0) return 1;
  const double regular_s = clean_step_seconds(batch, batch.regular);
  if (regular_s <= 0) return kFirstLook;
  const double share = has_free_looks(batch) ? kFreeLookShare : kVerifiedLookShare;
  const double n_steps = std::max(1.0 * kFirstLook, cost.seconds / (share * regular_s));
  return is_surprise ? n_steps / kSurprise : n_steps;
}

// Plans a look, if it is time for one. Where it would take too long to read what the draft model has missed, one at
// drafts that need no reading.
BASS_HD_CALL void plan_look(const Batch& batch) {
  for (const bool catches_up : {true, false}) {
    plan_probe(batch, /*is_look=*/true, catches_up);
    const ProbeCost cost = planned_cost(batch);
    if (batch.learnt.n_idle_steps >= steps_between_looks(batch, cost)) return;
    forget_plan(batch.candidates);
    if (cost.n_unread == 0) return;
  }
}

// Where looks tell what drafts are worth, tries are for what steps cost: they can wait where an earlier run has said.
BASS_HD_CALL bool is_try_due(const Batch& batch) {
  if (!is_probe_due(batch.learnt)) return false;
  if (batch.learnt.n_untried_steps >= kFirstCheck) return true;
  const int n_tried = batch.regular.n_rows + n_probed(batch.candidates.size());
  return !is_known_from_before(batch.costs, n_tried) ||
         std::any_of(batch.candidates.begin(), batch.candidates.end(),
                     [](const DraftCandidate& candidate) { return candidate.max_len > 0 && !candidate.can_look; });
}

// Whether a try keeps to its share of the time. The first ones need not: little is known then, and each that is in vain
// takes the next one twice as far away.
BASS_HD_CALL bool is_try_affordable(const Batch& batch, double seconds) {
  if (batch.learnt.probe_interval < GoodputState::kLastProbe) return true;
  const double share = has_free_looks(batch) ? kTryBesideFreeLooksShare : kTryShare;
  return batch.learnt.n_untried_steps * share * clean_step_seconds(batch, batch.regular) >= seconds;
}

// The try that is due, if one is: either as an option, or, where none is believed to pay even if steps were cheaper,
// as a plan of single tokens. False: there is none.
BASS_HD_CALL bool plan_try(const Batch& batch, Option* option) {
  if (!is_try_due(batch)) return false;
  plan_probe(batch, /*is_look=*/false, /*catches_up=*/true);
  if (!is_try_affordable(batch, planned_cost(batch).seconds)) {
    forget_plan(batch.candidates);
    return false;
  }
  *option = best_option(batch, /*doubt=*/1.0);
  if (option->level < 0) return true;
  forget_plan(batch.candidates);
  return is_try_affordable(batch, option_cost(batch, *option));
}

// Whether enough is known of regular steps without one: an earlier run has measured such steps and this one some
// others, which tell how fast the machine is now; or this one has measured steps of nearly as many rows; or drafts
// would win even if regular steps took much less than is believed.
BASS_HD_CALL bool is_regular_known(const Batch& batch, const Option& best) {
  const StepCosts& costs = batch.costs;
  const int n_rows = batch.regular.n_rows;
  const int idx = StepCosts::row_idx(n_rows);
  if (costs.n_steps < kFirstSteps) return false;
  if (costs.step_s[idx] > 0) return true;
  if (kLeastOfBelief * step_seconds(batch, batch.regular) * best.goodput > n_rows) return true;
  int n = 0;
  step_prediction::for_each_within(idx, std::max(1, idx / kNearRows), [&](int rows) {
    if (costs.last_measured[rows] > 0) n += costs.n_measured[rows];
  });
  return n >= kFirstSteps;
}

// Whether a regular step is due where drafts pay, to see what they must beat: until that is known, and then in a
// hundredth of the time at most. Where sequences end one after the other every size of a batch is new, but mostly known
// all the same. best: what would be drafted
BASS_HD_CALL bool is_regular_step_due(const Batch& batch, const Option& best) {
  const StepCosts& costs = batch.costs;
  const int n_rows = batch.regular.n_rows;
  // Beside prompts, or where others draft, no regular step is measured.
  if (batch.regular.has_chunk || batch.regular.has_others || !is_step_stale(costs, n_rows)) return false;
  if (best.goodput <= 0) return true;
  const int idx = StepCosts::row_idx(n_rows);
  const int last = costs.last_measured[idx];
  const int n_since = last == 0 ? int{batch.learnt.n_drafted_steps} : costs.n_steps - last;
  if (last == 0 ? !is_regular_known(batch, best) : n_since < StepCosts::kStaleSteps) return true;
  const double regular_s = step_seconds(batch, batch.regular);
  const double lost_s = regular_s - n_rows / best.goodput;
  return kRegularShare * n_since * (regular_s + option_cost(batch, best)) >= lost_s;
}

}  // namespace bass::goodput
