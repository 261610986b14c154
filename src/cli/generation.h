// Runs prompts through an engine and collects what comes back.
#pragma once

#include <functional>
#include <vector>

#include "bass/engine.h"
#include "cli/prompts.h"
#include "cli/results.h"

namespace bass {

struct GenerationSettings {
  bool wants_origins = false;          ///< fill ChoiceResult::token_ends
  std::function<void()> on_submitted;  ///< called once on the caller's thread: no request follows
  /// Called on the caller's thread after events and at least ten times a second.
  std::function<void(const GenerationResult&)> on_progress;
  /// Called on the caller's thread for each prompt whose choices have all ended, with their ranks; may release their
  /// texts. An error ends the run as a signal does, and is the result's `on_ended_status`.
  std::function<Status(PromptResult*)> on_ended;
};

/// The time budgets of prompts that are wanted together begin when the first is submitted: submitting thousands takes
/// seconds. elapsed_s: since then. False: nothing is left (but the least that a request may have).
bool take_from_budget(double elapsed_s, Request* request);

/// A prompt's result while nothing has come of it.
PromptResult result_before(const PromptSpec& spec);

/// Submits all prompts and returns when all have ended: by themselves, by their deadline, or because SIGINT or SIGTERM
/// came, in which case the choices keep what they have. Error: a request that the engine refuses (nothing was run);
/// when it refuses a later one for want of memory, that ends the run as on_ended's error does.
Result<GenerationResult> run_generation(Engine* engine, std::vector<PromptSpec> prompts,
                                        const GenerationSettings& settings);

}  // namespace bass
