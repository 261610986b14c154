// Traces of drafts (speculation/simulation/trace.h) and what machines cost, as files.
//
// A trace is JSONL. Its first line says where it comes from:
//   {"trace": 1, "model", "draft": str|null, "temperature", "top_p", "top_k", "min_p", "verify", "max_drafts"}
// (verify: "rejection", which `block` drafts like, or "match", which compares tokens, as greedy decoding does)
// and each further one is a sequence:
//   {"task", "prompt_tokens", "tokens", "rounds": [{"model"?: DRAFT, "ngram"?: DRAFT}, ...]}
// rounds[i]: what the drafters proposed when i tokens were generated; one more than tokens where an end token came.
// DRAFT is {"p": [..], "q": [..], "overlap": [..], "block": [..], "order"?}, the members of DraftEvidence by drafted
// token, with the n-gram's match order. One-hot drafts, and drafts that are compared by token (greedy, `match`), have p
// alone: q is 1, overlap is p unless it is given (sampled `match`), and block follows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "speculation/simulation/machine_costs.h"
#include "speculation/simulation/trace.h"

namespace bass {

/// A sequence as a line of the file, line break included.
std::string trace_line(const TracedSequence& sequence);

/// Error (kInvalidFile): no trace, or a line that is not whole, by file and line.
Result<Trace> read_trace(const std::string& path);

/// What the steps of a machine cost. The file is a JSON object: of one machine, or {"machines": {NAME: machine, ...}},
/// then `name` says which. A machine is {"step_seconds": [[rows, seconds], ...], and of these what there is:
/// "draft_pass_seconds": [[sequences, seconds], ...], "context_token_seconds": s, "seen_token_seconds": s,
/// "catch_up_seconds": s a token, "can_look": bool, "draft_step_seconds": [10 numbers], "attention_seconds": [3
/// numbers], "attention_free_rows": n}. The last four are how engines keep what they have measured while working
/// (engine/kept_costs.h); such tables are taken without the disturbances of single entries. Errors (kInvalidFile,
/// kInvalidArgument) name the file and the mend.
Result<MachineCosts> read_machine(const std::string& path, const std::string& name);

}  // namespace bass
