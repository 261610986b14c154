// Takes what an engine finds out about drafts while it traces them (EngineOptions::trace).
#pragma once

#include <span>

#include "bass/request.h"
#include "kernels/sampling/evidence.h"
#include "speculation/draft_length.h"

namespace bass {

/// An engine that traces drafts as it is told, has all drafted tokens judged, and throws them away: every sequence
/// advances by the one token that regular decoding draws. So the text is that of regular decoding with the same seed,
/// and there is evidence on drafts behind each of its prefixes. What its steps cost is not kept between runs.
class DraftTrace {
 public:
  virtual ~DraftTrace() = default;

  /// One sequence's part of a step, in the order of its text; on the engine's thread, before the event of its token.
  /// evidence: [n_drafted], valid during the call.
  virtual void add(RequestId request, int choice_idx, DraftSource source, std::span<const DraftEvidence> evidence) = 0;
};

}  // namespace bass
