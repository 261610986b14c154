// Draft-length policies: how many tokens the batch drafts in the next step.
//
// A policy is a row of functions over POD state, so that the per-step decision can run on the device that holds the
// true accepted lengths. A new policy is a file in policies/, one line in draft_length.cc and a test.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

/// The longest draft that any policy asks for.
inline constexpr int kMaxDraftLen = 32;

struct DraftLengthPolicy;

/// What the user chose. Each policy reads its own part.
struct DraftLengthSpec {
  const DraftLengthPolicy* policy = nullptr;
  int32_t initial = 7;          // bass: l0
  int32_t increment = 2;        // bass: inc
  int32_t max = kMaxDraftLen;   // bass: max
  int32_t shrink_divisor = 10;  // bass: div
  int32_t fixed_len = 0;        // fixed
};

/// What a policy remembers between steps of one batch.
struct DraftLengthState {
  int32_t len = 0;        // tokens to draft in the next step: 0 .. kMaxDraftLen
  int32_t n_shrinks = 0;  // bass: the s of Algorithm 1
};

/// One running sequence in the step that has just been verified.
struct DraftOutcome {
  int32_t n_drafted = 0;
  int32_t n_accepted = 0;  // <= n_drafted
};

struct DraftLengthPolicy {
  std::string_view name;
  std::string_view usage;  // for the help text
  /// Reads what follows "name:" (empty when there is no colon) into `spec`.
  Status (*parse)(std::string_view arguments, DraftLengthSpec& spec);
  DraftLengthState (*start)(const DraftLengthSpec& spec);
  /// The state after a step: a pure function. `outcomes` are the sequences that ran in it, in any order; a sequence
  /// that drafted fewer tokens than state.len (it was near its end, its drafter found nothing) says nothing about len.
  DraftLengthState (*next)(const DraftLengthSpec& spec, DraftLengthState state, std::span<const DraftOutcome> outcomes);
};

/// All policies, in the order of the help text.
std::span<const DraftLengthPolicy* const> draft_length_policies();

/// "bass", "bass:l0=7,inc=2,max=32,div=10", "fixed:K", "off". Errors (kInvalidArgument) name the text and the mend.
Result<DraftLengthSpec> parse_draft_length(std::string_view text);

/// "bass[:l0=7,...] | fixed:K | off", from the registry.
std::string draft_length_usage();

/// A whole number in [min, max]; the error begins with `what` and says the range. Shared by the policies' parsers.
Result<int32_t> parse_draft_number(std::string_view what, std::string_view text, int32_t min, int32_t max);

}  // namespace bass
