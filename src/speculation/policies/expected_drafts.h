// What drafts are expected to bring: what a policy asks the estimates of survival_estimate.h, and what it tells the
// drafters.
//
// Pure functions of POD state, without a look at the tokens that they decide about. They compile for a GPU as well
// (gpu/choose_lengths.cu).
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/cuda/host_device.h"
#include "speculation/draft_length.h"

namespace bass {
namespace expected_drafts {

inline constexpr float kPriorWeight = 4.0f;  // observations that a belief is worth
inline constexpr float kMinSeen = 8.0f;      // observations behind which errors say that something has changed
inline constexpr float kGoodSignal = 0.7f;   // of errors that deserve another look at once,
inline constexpr float kGoodDrift = 0.05f;   // if they are as large as this
inline constexpr float kOffsetStep = 0.5f;
inline constexpr float kLevelMargin = 0.025f;  // half of what levels are apart
inline constexpr float kMinKept = 0.05f;       // chance that a model drafts anything, below which it is not asked

BASS_HD_CALL float with_offset(float chance, float offset) {
  if (offset == 0) return chance;
  const float odds = chance / std::max(1.0f - chance, 1e-6f) * std::exp(offset);
  return odds / (1.0f + odds);
}

// -1 .. 1: whether the latest errors have one sign, which says that the draft has turned good or bad, or cancel out,
// which is luck (the tracking signal of Trigg and Leach 1967). Above 0: it has turned good.
// luck: errors that say nothing, as large as this
BASS_HD_CALL float tracking_signal(const GoodputState& state, size_t source, int j, float luck) {
  const float spread = state.spread[source][j] + luck;
  return state.weight[source][j] >= kMinSeen && spread > 0 ? state.drift[source][j] / spread : 0;
}

}  // namespace expected_drafts

/// The draft model has more to read of the text than any pass reads, before it can draft for this one.
BASS_HD_CALL bool must_catch_up(const DraftCandidate& candidate) { return n_to_catch_up(candidate.n_unread) > 0; }

/// What a sequence might draft.
struct ExpectedDraft {
  DraftSource source = DraftSource::kModel;
  int len = 0;          // at most
  double expected = 0;  // tokens that are accepted
};

/// That token j is accepted if those before it were: what was seen of it, and while that is little, what is believed of
/// the token before it. Lengths that were never tried are not held against a good draft.
BASS_HD_CALL float survival_belief(const GoodputState& state, DraftSource source, int j, float before) {
  const float weight = state.weight[static_cast<size_t>(source)][j];
  const float seen = state.survival[static_cast<size_t>(source)][j];
  return (weight * seen + expected_drafts::kPriorWeight * before) / (weight + expected_drafts::kPriorWeight);
}

/// What is believed of a source that was never tried: shares of tokens that the default model accepted.
BASS_HD_CALL float first_survival(DraftSource source) {
  constexpr float kFirst[kNumDraftSources] = {0.3f, 0.4f, 0.5f, 0.6f, 0.5f};
  return kFirst[static_cast<size_t>(source)];
}

/// The tokens of an n-gram whose survival is at least `min_survival`. offset: of the sequence
BASS_HD_CALL ExpectedDraft ngram_above(const GoodputState& state, DraftSource source, int max_len, float min_survival,
                                       float offset) {
  ExpectedDraft draft{source};
  float product = 1.0f;
  float belief = first_survival(source);
  for (; draft.len < std::min(max_len, int{GoodputState::kMaxLen}); ++draft.len) {
    belief = survival_belief(state, source, draft.len, belief);
    product *= expected_drafts::with_offset(belief, offset);
    if (product < min_survival) break;
    draft.expected += product;
  }
  return draft;
}

/// What the model's draft of such a sequence is expected to be, if it ends where survival falls below a level.
BASS_HD_CALL const ExpectedStops& expected_stops_of(const GoodputState& state, float offset) {
  const int idx = static_cast<int>(std::lround(offset / expected_drafts::kOffsetStep)) + GoodputState::kOffsets / 2;
  return state.stops[std::clamp(idx, 0, GoodputState::kOffsets - 1)];
}

BASS_HD_CALL ExpectedDraft model_above(const GoodputState& state, int max_len, int level, float offset) {
  const ExpectedStops& stops = expected_stops_of(state, offset);
  ExpectedDraft draft{DraftSource::kModel};
  // As far as tokens have a chance to be kept: a pass for less is for next to nothing.
  while (draft.len < std::min(max_len, int{GoodputState::kMaxLen}) &&
         stops.n_kept[level][draft.len] >= expected_drafts::kMinKept) {
    draft.expected += stops.n_accepted[level][draft.len++];
  }
  return draft;
}

/// What a candidate drafts if tokens of less survival are left out (of the model's, to the nearest level): where both
/// drafters could, the one from which more is expected. An n-gram's tokens cost nothing to draft, so it goes first
/// among equals. hope: log odds that the model's drafts are taken to be better by
BASS_HD_CALL ExpectedDraft draft_above(const GoodputState& state, const DraftCandidate& candidate, float min_survival,
                                       bool uses_model, float hope = 0) {
  const bool is_ngram = candidate.source != DraftSource::kModel;
  const int max_model_len = is_ngram ? candidate.max_model_len : candidate.max_len;
  ExpectedDraft draft{candidate.source};
  if (is_ngram) {
    draft = ngram_above(state, candidate.source, candidate.max_len, min_survival, candidate.skills.ngram.offset);
  }
  const bool has_level = min_survival < stop_level(0) + expected_drafts::kLevelMargin;
  if (!uses_model || max_model_len == 0 || !has_level) return draft;
  const ExpectedDraft other =
      model_above(state, max_model_len, nearest_stop_level(min_survival), candidate.skills.model.offset + hope);
  return other.expected > draft.expected ? other : draft;
}

/// Tells the candidate to draft so, at most max_len tokens, of a model's those whose survival is at least min_survival
/// (with that hope).
BASS_HD_CALL void set_draft(const GoodputState& state, const ExpectedDraft& draft, float min_survival, int max_len,
                            DraftCandidate* candidate, float hope = 0) {
  candidate->source = draft.source;
  candidate->len = draft.len;
  if (draft.source != DraftSource::kModel) return;
  candidate->len = std::min(draft.len, max_len);
  candidate->stop = {min_survival, candidate->skills.model.offset + hope, state.confidence.model};
}

/// Nothing was drafted for so long that a try is due.
BASS_HD_CALL bool is_probe_due(const GoodputState& state) { return state.n_untried_steps >= state.probe_interval; }

/// The latest looks at a source found it better than it is believed to be.
BASS_HD_CALL bool has_turned_good(const GoodputState& state, DraftSource source) {
  const auto i = static_cast<size_t>(source);
  return state.drift[i][0] > expected_drafts::kGoodDrift &&
         expected_drafts::tracking_signal(state, i, 0, 0) > expected_drafts::kGoodSignal;
}

/// One token for an eighth of the candidates: enough to see whether drafts have become good again.
BASS_HD int n_probed(size_t n_candidates) { return static_cast<int>((n_candidates + 7) / 8); }

/// Those whose source has turned good come first, then those whose draft model has least to read, and of those for
/// which it has to catch up a single one: a try after a long pause may take it longer than the step. catches_up: false:
/// none
BASS_HD_CALL void probe(const GoodputState& state, std::span<DraftCandidate> candidates, bool catches_up = true) {
  const auto goes_first = [&](const DraftCandidate& a, const DraftCandidate& b) {
    const bool is_good_a = has_turned_good(state, a.source), is_good_b = has_turned_good(state, b.source);
    if (is_good_a != is_good_b) return is_good_a;
    return a.source == DraftSource::kModel && b.source == DraftSource::kModel && a.n_unread < b.n_unread;
  };
  const auto needs_reading = [](const DraftCandidate& candidate) {
    return candidate.source == DraftSource::kModel && must_catch_up(candidate);
  };
  bool has_catch_up = !catches_up;
  for (int n_left = n_probed(candidates.size()); n_left > 0; --n_left) {
    DraftCandidate* first = nullptr;
    for (DraftCandidate& candidate : candidates) {
      if (candidate.max_len == 0 || candidate.len > 0 || (has_catch_up && needs_reading(candidate))) continue;
      if (first == nullptr || goes_first(candidate, *first)) first = &candidate;
    }
    if (first == nullptr) return;
    has_catch_up |= needs_reading(*first);
    first->len = 1;
    first->stop = {};  // however unlikely it looks
  }
}

}  // namespace bass
