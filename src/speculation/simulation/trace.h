// A trace: what each drafter proposed behind every prefix of generated texts, and what the main model said of it. The
// texts are those of regular decoding, so traces of several drafters with the same seeds are one trace.
#pragma once

#include <string>
#include <vector>

#include "kernels/sampling/evidence.h"
#include "speculation/draft_length.h"

namespace bass {

/// What the drafters proposed for a sequence at one position of its text, each as if it were used alone. Empty:
/// nothing.
struct TracedRound {
  std::vector<DraftEvidence> ngram;
  std::vector<DraftEvidence> model;
  int ngram_order = 0;  // tokens of the match
};

struct TracedSequence {
  std::string task;  // what kind of text it is; may be empty
  int prompt_len = 0;
  int n_tokens = 0;                 // of the text: as many as rounds, or one less where an end token came
  std::vector<TracedRound> rounds;  // [i]: i tokens were generated
};

struct Trace {
  int max_drafts = 8;            // tokens that a drafter proposed at most
  bool compares_tokens = false;  // greedy or `match`: all p are 0 or 1
  std::vector<TracedSequence> sequences;
};

/// Tokens that `rule` accepts in expectation of a round that drafts these tokens: over all random numbers, given the
/// drafts. `match` counts as `rejection`: its evidence is 0 or 1.
double expected_accepted(VerifyRule rule, std::span<const DraftEvidence> drafts);

/// The same for `block` over what the tokens behind each one could have been, too: P(tau >= i | x_1 .. x_i) = p_i
/// (kernels/sampling/block.h). At least rejection's in every round. Its mean over many rounds is that of
/// expected_accepted, unless the h_i are wrong.
double expected_block_accepted(std::span<const DraftEvidence> drafts);

/// How many tokens are accepted when uniform(i) is the number, uniform in [0, 1), that decides on the i-th token.
template <class Uniform>
int draw_accepted(VerifyRule rule, std::span<const DraftEvidence> drafts, Uniform uniform) {
  int n_accepted = 0;
  double joint = 1;
  for (size_t i = 0; i < drafts.size(); ++i) {
    const DraftEvidence& draft = drafts[i];
    joint = next_joint(joint, draft.p, draft.q);
    if (rule == VerifyRule::kBlock) {
      if (uniform() < (i + 1 < drafts.size() ? draft.block : joint)) n_accepted = static_cast<int>(i) + 1;
    } else {
      if (uniform() >= acceptance_probability(draft.p, draft.q)) break;
      ++n_accepted;
    }
  }
  return n_accepted;
}

}  // namespace bass
