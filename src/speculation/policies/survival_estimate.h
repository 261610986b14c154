// How likely drafted tokens are to be accepted, learnt online: what `goodput` and `survival` know. Of n-grams for each
// length of a match and position; of a draft model by the confidence of each token (draft_confidence.h); of both with
// an offset for each sequence. The product of the chances up to a token, its survival, is the chance that it is reached
// and accepted.
//
// All are functions of POD state, without a look at the tokens that they decide about.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

/// The state of a policy that has seen nothing yet.
DraftLengthState start_survival(const DraftLengthSpec& spec);

/// Learns from a step, also from one without drafts; counts the steps until a draft is to be tried again.
void learn_survival(DraftLengthState& state, std::span<const DraftOutcome> outcomes);

/// That token j is accepted if those before it were: what was seen of it, and while that is little, what is believed of
/// the token before it. Lengths that were never tried are not held against a good draft.
float survival_belief(const GoodputState& state, DraftSource source, int j, float before);
/// What is believed of a source that was never tried: shares of tokens that the default model accepted.
float first_survival(DraftSource source);

/// What a sequence might draft.
struct ExpectedDraft {
  DraftSource source = DraftSource::kModel;
  int len = 0;          // at most
  double expected = 0;  // tokens that are accepted
};

/// The tokens of an n-gram whose survival is at least `min_survival`. offset: of the sequence
ExpectedDraft ngram_above(const GoodputState& state, DraftSource source, int max_len, float min_survival, float offset);

/// What the model's draft of such a sequence is expected to be, if it ends where survival falls below a level.
const ExpectedStops& expected_stops_of(const GoodputState& state, float offset);
ExpectedDraft model_above(const GoodputState& state, int max_len, int level, float offset);

/// What a candidate drafts if tokens whose survival is below a level are left out: where both drafters could, the one
/// from which more is expected. An n-gram's tokens cost nothing to draft, so it goes first among equals.
ExpectedDraft draft_above(const GoodputState& state, const DraftCandidate& candidate, int level, bool uses_model);

/// Tells the candidate to draft so, at most max_len tokens, of a model's those whose survival is at least min_survival.
void set_draft(const GoodputState& state, const ExpectedDraft& draft, float min_survival, int max_len,
               DraftCandidate* candidate);

/// How many tokens of a draft are accepted, by what is believed before it is learnt from.
double expected_accepted(const DraftLengthState& state, const DraftOutcome& outcome);

/// Nothing was drafted for so long that a try is due.
bool is_probe_due(const GoodputState& state);

/// The latest looks at a source found it better than it is believed to be.
bool has_turned_good(const GoodputState& state, DraftSource source);

/// One token for an eighth of the candidates: enough to see whether drafts have become good again.
inline int n_probed(size_t n_candidates) { return static_cast<int>((n_candidates + 7) / 8); }
/// Those whose source has turned good come first, then those whose draft model has least to read, and of those for
/// which it has to catch up a single one: a try after a long pause may take it longer than the step.
void probe(const GoodputState& state, std::span<DraftCandidate> candidates);

}  // namespace bass
