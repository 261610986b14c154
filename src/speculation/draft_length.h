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
#include "speculation/draft_confidence.h"
#include "speculation/step_costs.h"

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
  float min_survival = 0.2f;    // survival: a draft pass of a tenth of a step still pays for such a token
};

/// Where a sequence's draft comes from, as far as it foretells acceptance: the length of the n-gram match, or the draft
/// model. Known before any token of the draft is drawn.
enum class DraftSource : uint8_t { kNgram2, kNgram3, kNgram4, kNgram5, kModel };
inline constexpr int kNumDraftSources = 5;
/// The source of an n-gram draft whose match has `order` tokens; longer matches count as 5.
DraftSource ngram_source(int order);
/// The reverse: tokens of the match, 5 for longer ones. source: not kModel
int ngram_order(DraftSource source);
/// Tokens that a match must have to be drafted from. With a draft model at hand, it must be longer to be taken instead
/// of the model's.
constexpr int min_ngram_order(bool has_model) { return has_model ? 4 : 2; }

/// What `goodput` and `survival` have learnt (policies/survival_estimate.h).
struct GoodputState {
  static constexpr int kMaxLen = ExpectedStops::kMaxLen;  // tokens that a sequence may draft
  static constexpr int kOffsets = 7;                      // classes of sequences by the offset of their drafts
  static constexpr int kLastProbe = 96;                   // the longest probe_interval
  float survival[kNumDraftSources][kMaxLen] = {};  // how often token j was accepted when those before it were, lately
  float weight[kNumDraftSources][kMaxLen] = {};    // how often that was seen
  float drift[kNumDraftSources][kMaxLen] = {};     // mean of the latest errors of what was believed, with their signs
  float spread[kNumDraftSources][kMaxLen] = {};    // the same without their signs
  ConfidenceState confidence;                      // of the draft model's tokens
  ExpectedStops stops[kOffsets] = {};              // what drafts of such confidences bring
  ConfidenceTerms stops_of;                        // with these terms
  float hope = 0;                                  // log odds that the draft model may be better; fades with looks
  int32_t n_until_stops = 0;                       // steps until that is computed again
  int32_t n_idle_steps = 0;                        // steps without a draft since the last one that had any
  int32_t n_drafted_steps = 0;                     // steps that verified drafts since the last one that did not
  int32_t n_untried_steps = 0;                     // steps since drafts were last used, or tried whatever they cost
  int32_t probe_interval = 0;                      // of these, after which they are tried again
  bool has_verified = false;                       // the step before verified drafts that were no looks
};

/// What a policy remembers between steps of one batch.
struct DraftLengthState {
  int32_t len = 0;        // tokens that a sequence may draft in the next step at most: 0 .. kMaxDraftLen
  int32_t n_shrinks = 0;  // bass: the s of Algorithm 1
  GoodputState goodput;
  float min_survival = 0;  // survival: of a token that is drafted
};

/// How likely a drafted token was to be accepted, without the luck of its draw.
struct AcceptanceLabel {
  float chance = 0;  // that it is accepted if all before it are, as known before it was drawn
  float weight = 0;  // the chance that all before it are accepted
};

/// How the drafts of one sequence differ from others', by who drafts.
struct SequenceSkills {
  DraftSkill ngram;
  DraftSkill model;
};

/// One running sequence in the step that has just been verified. Of a look, what its token was worth or would have
/// been.
struct DraftOutcome {
  int32_t n_drafted = 0;   // may be 0 where a draft model would have drafted, but found nothing that is worth it
  int32_t n_accepted = 0;  // <= n_drafted
  DraftSource source = DraftSource::kModel;
  std::span<const AcceptanceLabel> labels;  // of the drafted tokens in order, as far as they were looked at. None: what
                                            // became of them is all that is known
  std::span<const float> confidences = {};  // of the model's drafted tokens, and of one that was dropped behind them
  SequenceSkills* skills = nullptr;         // of the sequence, learnt too
  bool is_look = false;                     // DraftCandidate's: nobody counts on it, verified or not
};

/// Of the tokens that the draft model has not read of a sequence, those that it has to catch up with, which is measured
/// apart: all, or none where they are no more than one step emits, as any pass reads so many.
constexpr int n_to_catch_up(int n_unread) { return n_unread > GoodputState::kMaxLen + 1 ? n_unread : 0; }

/// Of the other tokens that it has not read, those beside the one or two that follow a draft of its own: its next pass
/// has so many rows more, as after n-grams' drafts.
constexpr int n_behind(int n_unread) { return n_to_catch_up(n_unread) > 0 || n_unread < 2 ? 0 : n_unread - 2; }

/// A sequence that could draft in the step that is being planned. Where both drafters could, `source` is the n-gram's
/// and a policy may change it to kModel.
struct DraftCandidate {
  DraftSource source = DraftSource::kModel;
  int32_t max_len = 0;        // that `source` can draft
  int32_t max_model_len = 0;  // that the draft model can draft in the place of an n-gram; 0: it cannot
  int32_t len = 0;            // the policy's answer: 0 .. what its choice of source can draft
  int32_t context_len = 0;    // tokens that its rows see
  SequenceSkills skills = {};
  DraftStop stop = {};    // the policy's answer, too: where the draft model is to end before `len` tokens
  int32_t n_unread = 0;   // tokens of the text that the draft model has to read before it can draft
  int32_t n_left = 32;    // tokens that it may still emit
  float worth = 1;        // of a token of it, beside those of others (token_worth.h)
  bool can_look = false;  // the device can compare a token with what is said in its place, without a row for it
  bool is_look = false;   // the policy's answer, too: `len` is 1, to see what drafts are worth

  /// Nothing is verified, and no row spent. Other looks are verified.
  [[nodiscard]] constexpr bool is_free_look() const { return is_look && can_look; }
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
  /// Chooses the lengths of a step: a pure function. regular: what it asks for without drafts, one row a sequence.
  /// nullptr: everybody drafts min(max_len, state.len).
  void (*choose)(const DraftLengthState& state, const StepCosts& costs, const StepLoad& regular,
                 std::span<DraftCandidate> candidates) = nullptr;
  /// Learns from a step, also from one without drafts. nullptr: `next` is all.
  void (*learn)(DraftLengthState& state, std::span<const DraftOutcome> outcomes) = nullptr;
  /// How many tokens of a draft were expected to be accepted, by what was known before it was verified. nullptr: the
  /// policy expects nothing.
  double (*expected)(const DraftLengthState& state, const DraftOutcome& outcome) = nullptr;
  /// Choices depend on what steps took, so no seed fixes them; what was learnt is worth keeping for later batches.
  bool is_timed = false;
  /// Whether the draft model would be asked in a batch of such sequences though it has to read their prompts
  /// (DraftCandidate::n_unread): else it need not, as it can do that later. nullptr: yes.
  bool (*wants_model)(const DraftLengthState& state, const StepCosts& costs, const StepLoad& regular,
                      std::span<DraftCandidate> candidates) = nullptr;
};

/// The policy's choice for a step, or the same length for all.
void choose_draft_lengths(const DraftLengthSpec& spec, const DraftLengthState& state, const StepCosts& costs,
                          const StepLoad& regular, std::span<DraftCandidate> candidates);
/// The policy's state after a step.
void advance_draft_length(const DraftLengthSpec& spec, DraftLengthState& state, std::span<const DraftOutcome> outcomes);

/// `next` of policies whose outcomes do not change their state, or change it in `learn`.
DraftLengthState keep_draft_length_state(const DraftLengthSpec& spec, DraftLengthState state,
                                         std::span<const DraftOutcome> outcomes);

/// All policies, in the order of the help text.
std::span<const DraftLengthPolicy* const> draft_length_policies();

/// "goodput", "bass", "bass:l0=7,inc=2,max=32,div=10", "survival:min=0.2", "fixed:K", "off". Errors (kInvalidArgument)
/// name the text and the mend.
Result<DraftLengthSpec> parse_draft_length(std::string_view text);

/// "goodput | bass[:l0=7,...] | survival[:min=0.2] | fixed:K | off", from the registry.
std::string draft_length_usage();

/// A whole number in [min, max]; the error begins with `what` and says the range. Shared by the policies' parsers.
Result<int32_t> parse_draft_number(std::string_view what, std::string_view text, int32_t min, int32_t max);

}  // namespace bass
