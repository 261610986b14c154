// The policies' per-step decisions, compiled for a GPU: a device that holds the true accepted lengths may plan its own
// next step. Nothing launches these kernels yet, as the engine plans on the host (docs/cuda.md); they keep the
// decisions functions of POD state that a device can run. A single thread decides for the whole batch.
#include <cuda_runtime.h>

#include <span>

#include "speculation/policies/bass.h"
#include "speculation/policies/goodput_choice.h"
#include "speculation/policies/survival_choice.h"
#include "speculation/token_worth.h"

namespace bass {

/// candidates: [n], both lengths and where drafts end are written there
__global__ void choose_goodput_lengths(const DraftLengthState* state, const StepCosts* costs, StepLoad regular,
                                       DraftCandidate* candidates, int n) {
  choose_goodput(*state, *costs, regular, std::span(candidates, static_cast<size_t>(n)));
}

__global__ void choose_survival_lengths(const DraftLengthState* state, const StepCosts* costs, StepLoad regular,
                                        DraftCandidate* candidates, int n) {
  choose_survival(*state, *costs, regular, std::span(candidates, static_cast<size_t>(n)));
}

/// sequences: [n], what their tokens are worth is written there
__global__ void weigh_running_sequences(const StepCosts* costs, StepLoad regular, bool has_waiting,
                                        RunningSequence* sequences, int n) {
  weigh_tokens(*costs, regular, has_waiting, std::span(sequences, static_cast<size_t>(n)));
}

/// outcomes: [n]
__global__ void choose_bass_length(const DraftLengthSpec* spec, BassLength* state, const DraftOutcome* outcomes,
                                   int n) {
  *state = next_bass_length(*spec, *state, std::span(outcomes, static_cast<size_t>(n)));
}

}  // namespace bass
