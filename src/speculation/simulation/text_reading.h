// What a simulated draft model reads of a text, as it does in the engine.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

/// In a step that emits n_emitted tokens of a sequence and has the draft model draft or drop n_drafted of them: what it
/// reads goes to `cost`, what it leaves for later to *n_unread. The last token of a draft is not fed to it.
inline void read_text(int n_drafted, int n_emitted, int* n_unread, StepCost* cost) {
  if (n_drafted == 0) {
    *n_unread += n_emitted;
    return;
  }
  cost->n_caught_up += n_to_catch_up(*n_unread);
  cost->n_behind += n_behind(*n_unread);
  *n_unread = n_emitted > n_drafted ? 2 : 1;
}

}  // namespace bass
