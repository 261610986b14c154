#include "speculation/simulation/replay.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "speculation/simulation/text_reading.h"

namespace bass {
namespace {

// Entries of a policy's table that are known from earlier runs count as a few measurements (engine/kept_costs.cc).
constexpr uint16_t kTrust = 4;

StepCosts known_costs(const MachineCosts& machine) {
  StepCosts costs;
  costs.max_rows_seen = StepCosts::kMaxRows;
  for (int n_rows = 1; n_rows <= StepCosts::kMaxRows; ++n_rows) {
    costs.step_s[n_rows] = static_cast<float>(seconds_at(machine.step, n_rows));
    costs.n_measured[n_rows] = kTrust;
  }
  for (int size = 0; size < StepCosts::kDraftSizes && !machine.draft_pass.empty(); ++size) {
    costs.draft_step_s[size] = static_cast<float>(seconds_at(machine.draft_pass, 1.5 * (1 << size)));
  }
  costs.catch_up_s = static_cast<float>(machine.catch_up_token_s);
  return costs;
}

class Replay {
 public:
  Replay(const Trace& trace, const MachineCosts& machine, LengthChooser* chooser, const ReplayOptions& options)
      : trace_(trace),
        machine_(machine),
        chooser_(chooser),
        options_(options),
        order_(options.seed),
        random_(~options.seed) {
    labels_.reserve(static_cast<size_t>(options.batch) * kMaxDraftLen);
    for (const TracedSequence& sequence : trace.sequences) longest_ = std::max(longest_, sequence.n_tokens);
    may_end_ = std::any_of(trace.sequences.begin(), trace.sequences.end(),
                           [&](const TracedSequence& sequence) { return sequence.n_tokens < longest_; });
  }

  ReplayResult run() {
    fill_slots();
    while (!slots_.empty() && (options_.n_steps == 0 || result_.n_steps < options_.n_steps)) {
      choose();
      advance();
      std::erase_if(slots_, [](const Slot& slot) { return slot.position >= slot.sequence->rounds.size(); });
      fill_slots();
    }
    return result_;
  }

 private:
  struct Slot {
    const TracedSequence* sequence = nullptr;
    size_t position = 0;
    DraftSource source = DraftSource::kModel;
    int len = 0;           // of the running step's draft
    bool is_look = false;  // DraftCandidate's
    SequenceSkills skills = {};
    std::array<float, kMaxDraftLen> confidences = {};  // of the running step's draft, if it is the model's
    int n_confidences = 0;
    int n_unread = 1;  // tokens of the text that the draft model has not read

    [[nodiscard]] const TracedRound& round() const { return sequence->rounds[position]; }
    [[nodiscard]] int context_len() const { return sequence->prompt_len + static_cast<int>(position); }
    [[nodiscard]] std::span<const DraftEvidence> draft() const {
      const auto& tokens = source == DraftSource::kModel ? round().model : round().ngram;
      return std::span(tokens).first(static_cast<size_t>(len));
    }
  };

  void fill_slots() {
    while (static_cast<int>(slots_.size()) < options_.batch) {
      const bool is_once = options_.n_steps == 0;
      if (is_once && next_ == trace_.sequences.size()) return;
      const TracedSequence& sequence = trace_.sequences[is_once ? next_++ : order_() % trace_.sequences.size()];
      if (!sequence.rounds.empty()) slots_.push_back({&sequence});
    }
  }

  // What an engine knows of that: the longest text has all the tokens that it may have.
  [[nodiscard]] int n_left(const Slot& slot) const { return std::max(longest_ - static_cast<int>(slot.position), 1); }

  // Places are taken again by other sequences while there are any.
  void weigh() {
    const bool has_waiting = options_.n_steps > 0 || next_ < trace_.sequences.size();
    running_.clear();
    for (const Slot& slot : slots_) running_.push_back({.job = 1, .n_left = n_left(slot), .may_end = may_end_});
    chooser_->weigh(regular_, has_waiting, running_);
  }

  // As the scheduler does: an n-gram match's continuation, whatever the draft model says, or the model's draft.
  void choose() {
    regular_ = {};
    for (const Slot& slot : slots_) {
      ++regular_.n_rows;
      regular_.n_read += slot.context_len();
    }
    regular_.n_seen = regular_.n_read;
    weigh();
    candidates_.clear();
    owners_.clear();
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      slot.len = 0;
      slot.is_look = false;
      slot.n_confidences = 0;
      const TracedRound& round = slot.round();
      const int max_len = std::clamp(n_left(slot) - 1, 0, chooser_->max_len());
      const bool has_ngram =
          options_.uses_ngrams && !round.ngram.empty() && round.ngram_order >= options_.min_ngram_order;
      const int n_model = options_.uses_model ? std::min(static_cast<int>(round.model.size()), max_len) : 0;
      const int n_ngram = has_ngram ? std::min(static_cast<int>(round.ngram.size()), max_len) : 0;
      if (n_ngram == 0 && n_model == 0) continue;
      candidates_.push_back({.source = n_ngram > 0 ? ngram_source(round.ngram_order) : DraftSource::kModel,
                             .max_len = n_ngram > 0 ? n_ngram : n_model,
                             .max_model_len = n_model,
                             .context_len = slot.context_len(),
                             .skills = slot.skills,
                             .n_unread = slot.n_unread,
                             .n_left = n_left(slot),
                             .worth = running_[i].worth,
                             .can_look = machine_.can_look});
      owners_.push_back(&slot);
    }
    chooser_->choose(regular_, candidates_);
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Slot* slot = owners_[i];
      slot->source = candidates_[i].source;
      slot->len = candidates_[i].len;
      slot->is_look = candidates_[i].is_look;
      if (slot->source == DraftSource::kModel) end_draft(candidates_[i].stop, slot);
    }
  }

  // As a device does.
  static void end_draft(const DraftStop& stop, Slot* slot) {
    const std::span confidences(slot->confidences.data(), static_cast<size_t>(slot->len));
    std::transform(slot->round().model.begin(), slot->round().model.begin() + slot->len, confidences.begin(),
                   [](const DraftEvidence& token) { return token.confidence; });
    slot->len = drafted_len(stop, confidences, &slot->n_confidences);
  }

  // Nothing of its draft is verified.
  [[nodiscard]] bool is_free_look(const Slot& slot) const { return slot.is_look && machine_.can_look; }

  void advance() {
    StepCost cost{.n_rows = regular_.n_rows, .is_clean = true, .n_read = regular_.n_read, .n_seen = regular_.n_seen};
    outcomes_.clear();
    labels_.clear();
    n_drafting_.fill(0);
    for (Slot& slot : slots_) {
      const int n_accepted = draw_accepted(options_.rule, slot.draft(), [this] { return uniform_(random_); });
      if (slot.len > 0 || slot.n_confidences > 0) {
        outcomes_.push_back({slot.len, n_accepted, slot.source, labels_of(slot.draft(), n_accepted),
                             std::span<const float>(slot.confidences).first(static_cast<size_t>(slot.n_confidences)),
                             &slot.skills, slot.is_look});
      }
      if (!is_free_look(slot)) {
        cost.n_rows += slot.len;
        cost.n_seen += static_cast<double>(slot.len) * slot.context_len();
      }
      cost.n_draft_steps = std::max(cost.n_draft_steps, slot.n_confidences);
      cost.n_model_drafts += slot.n_confidences;
      for (int pass = 0; pass < slot.n_confidences; ++pass) ++n_drafting_[static_cast<size_t>(pass)];
      const int n_emitted = is_free_look(slot) ? 1 : n_accepted + 1;
      read_text(slot.n_confidences, n_emitted, &slot.n_unread, &cost);
      count(slot, n_emitted);
      slot.position += static_cast<size_t>(n_emitted);
    }
    cost.attention_s = attention_seconds(machine_, cost.n_read, cost.n_seen);
    cost.step_s = seconds_at(machine_.step, cost.n_rows) + cost.attention_s;
    for (int pass = 0; pass < cost.n_draft_steps; ++pass) {
      cost.draft_s += seconds_at(machine_.draft_pass, n_drafting_[static_cast<size_t>(pass)]);
    }
    cost.draft_s += machine_.catch_up_token_s * (cost.n_caught_up + cost.n_behind);
    const double disturbance = std::exp(options_.noise * normal_(random_));
    cost.step_s *= disturbance;
    cost.attention_s *= disturbance;
    cost.draft_s *= disturbance;
    result_.seconds += cost.step_s + cost.draft_s;
    result_.draft_s += cost.draft_s;
    ++result_.n_steps;
    chooser_->learn(cost, static_cast<int>(slots_.size()), outcomes_);
  }

  // As the executor gives them to policies: of the tokens that verification has looked at.
  std::span<const AcceptanceLabel> labels_of(std::span<const DraftEvidence> drafts, int n_accepted) {
    if (!options_.has_labels) return {};
    const size_t begin = labels_.size();
    double weight = 1;
    for (size_t i = 0; i < drafts.size() && weight > 0; ++i) {
      labels_.push_back({drafts[i].overlap, static_cast<float>(weight)});
      if (options_.rule == VerifyRule::kBlock) {
        weight = next_joint(weight, drafts[i].p, drafts[i].q);
      } else {
        weight = static_cast<int>(i) < n_accepted ? 1 : 0;
      }
    }
    return std::span(labels_).subspan(begin);
  }

  void count(const Slot& slot, int n_emitted) {
    const int n_to_come = slot.sequence->n_tokens - static_cast<int>(slot.position);
    result_.n_tokens += std::clamp(n_to_come, 0, n_emitted);
    result_.n_drafted += is_free_look(slot) ? 0 : slot.len;
    result_.n_accepted += n_emitted - 1;
    ++result_.n_rounds;
  }

  const Trace& trace_;
  const MachineCosts& machine_;
  LengthChooser* chooser_;
  const ReplayOptions& options_;
  std::mt19937_64 order_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<> uniform_;
  std::normal_distribution<> normal_;
  std::vector<Slot> slots_;
  int longest_ = 0;                       // tokens of a text
  bool may_end_ = false;                  // texts end before that
  size_t next_ = 0;                       // sequence, where each comes once
  StepLoad regular_;                      // of the running step without drafts
  std::vector<RunningSequence> running_;  // the slots
  std::vector<DraftCandidate> candidates_;
  std::vector<Slot*> owners_;  // of the candidates
  std::vector<DraftOutcome> outcomes_;
  std::vector<AcceptanceLabel> labels_;         // of the outcomes; has room for all of a step
  std::array<int, kMaxDraftLen> n_drafting_{};  // sequences in each pass of the draft model
  ReplayResult result_;
};

}  // namespace

ReplayResult replay(const Trace& trace, const MachineCosts& machine, LengthChooser* chooser,
                    const ReplayOptions& options) {
  return Replay(trace, machine, chooser, options).run();
}

std::unique_ptr<LengthChooser> start_engine_policy(DraftLengthSpec spec, const Trace& trace,
                                                   const MachineCosts& machine, bool knows_costs) {
  spec.max = std::min(spec.max, trace.max_drafts);  // Algorithm 1 waits for drafts as long as it has asked for
  spec.initial = std::min(spec.initial, spec.max);
  return engine_policy(spec, knows_costs ? known_costs(machine) : StepCosts{});
}

}  // namespace bass
