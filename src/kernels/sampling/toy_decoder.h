// Decodes with toy models (toy_model.h) through the real functions of verification and the real random numbers - or,
// for negative controls, with a fault put in.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/sampling/block.h"
#include "kernels/sampling/toy_model.h"

namespace bass::testing {

class ToyDecoder : public ToyRows {
 public:
  using ToyRows::ToyRows;

  /// The first n_tokens of one sequence.
  Tokens generate(uint64_t seed, size_t n_tokens) {
    params_.seed = seed;
    Tokens text, earlier_drafts(64, -1);
    rounds_.clear();
    while (text.size() < n_tokens) {
      const int n_accepted = rounds_.empty() ? -1 : rounds_.back().n_accepted;
      const DraftChoice choice = setup_.length({n_accepted, earlier_drafts[text.size()], text, rounds_});
      std::vector<float> confidences;
      const std::vector<Draft> drafts = draft_round(text, choice, &confidences);
      for (size_t k = 0; k < drafts.size(); ++k) earlier_drafts[text.size() + k] = drafts[k].token;
      const bool is_look = choice.is_look && !drafts.empty();
      const Heard heard = is_look ? look(text, drafts.front()) : verify_round(text, drafts);
      rounds_.push_back({static_cast<int>(drafts.size()), heard.n_accepted, kind_of(choice), choice.source,
                         labels_of(heard.chances, heard.joints, heard.n_accepted), std::move(confidences), is_look});
    }
    text.resize(n_tokens);
    return text;
  }

  /// Of the text that was generated last.
  [[nodiscard]] const std::vector<ToyRound>& rounds() const { return rounds_; }

 private:
  struct Draft {
    TokenId token = 0;
    std::vector<uint16_t> stored;  // empty for a one-hot draft
  };
  /// What becomes of a round, and what the executor would tell policies about its drafts.
  struct Heard {
    int n_accepted = 0;
    std::vector<float> chances;
    std::vector<double> joints;
  };
  /// A drafted token's row, loaded.
  struct LoadedRow {
    std::vector<float> logits;
    RowDistribution p, q;
    DraftedToken draft;
  };

  [[nodiscard]] RoundPosition noise_position(size_t position, size_t round_start) const {
    return {static_cast<uint32_t>(position), static_cast<uint32_t>(round_start)};
  }

  // What `at` of a real function becomes with the fault kPositionOnlyNoise: the noise of a round that starts at 0.
  [[nodiscard]] RandomStream faulty(RandomStream stream) const {
    if (setup_.fault == Fault::kPositionOnlyNoise) stream.round_start = 0;
    return stream;
  }

  // confidences: of the places that a draft with an end of its own comes to
  std::vector<Draft> draft_round(const Tokens& text, const DraftChoice& choice, std::vector<float>* confidences) {
    std::vector<Draft> drafts;
    Tokens prefix = text;
    for (int k = 0; k < choice.len; ++k) {
      Draft draft;
      DraftView view{static_cast<size_t>(k), true, 0, 1, 1, 0};
      float confidence = 1;
      double q_token = 1;
      if (is_one_hot(kind_of(choice), prefix)) {
        view.token = draft.token = one_hot_draft(prefix);
      } else {
        DraftRow row = draft_row(prefix);
        draft.stored = std::move(row.stored);
        confidence = row.confidence;
        const RowDistribution q = load_draft_row(sampler_, draft.stored.data(), setup_.draft.n_vocab);
        const RandomStream noise = faulty(draft_stream(params_, noise_position(prefix.size(), text.size())));
        draft.token = sample(sampler_.kernels(), q, noise);
        q_token = probability(q, draft.token);
        if (is_view_wanted()) view = view_of(view.k, draft.token, q);
      }
      if (choice.ends) confidences->push_back(confidence);
      const DraftEnd end = end_of(choice, *confidences, q_token);
      if (end == DraftEnd::kInFront) break;
      prefix.push_back(draft.token);
      drafts.push_back(std::move(draft));
      if (end == DraftEnd::kBehind) break;
      if (!is_view_wanted()) continue;
      if (const size_t n = n_thrown_away(view); n > 0) {
        drafts.resize(drafts.size() - std::min(n, drafts.size()));
        break;
      }
    }
    return drafts;
  }

  [[nodiscard]] bool is_view_wanted() const {
    return setup_.fault == Fault::kDropUnlikelyDrafts || setup_.n_thrown_away != nullptr;
  }

  // Before the row is judged, which may destroy p.
  void hear(const LoadedRow& row, Heard* heard) const {
    if (!setup_.tells_labels) return;
    const double before = heard->joints.empty() ? 1 : heard->joints.back();
    const double p_x = probability(row.p, row.draft.token), q_x = draft_probability(row.draft, row.draft.token);
    heard->chances.push_back(static_cast<float>(acceptance_chance(sampler_, row.p, row.draft)));
    heard->joints.push_back(next_joint(before, p_x, q_x));
  }

  void load_row(const Tokens& prefix, const Draft& draft, LoadedRow* row) {
    const bool is_one_hot = draft.stored.empty();
    if (!is_one_hot) row->q = load_draft_row(sampler_, draft.stored.data(), setup_.draft.n_vocab);
    row->logits = main_logits(prefix);
    row->p = main_row(row->logits, prefix);
    row->draft = {draft.token, is_one_hot ? nullptr : &row->q};
  }

  // Appends what the round emits to `text`.
  Heard verify_round(Tokens& text, const std::vector<Draft>& drafts) {
    const bool is_real = setup_.fault == Fault::kNone || setup_.fault == Fault::kDropUnlikelyDrafts;
    if (setup_.fault == Fault::kTakeUnverified) return take_unverified(text, drafts);
    if (is_block()) return is_real ? block_round(text, drafts) : block_round_written_out(text, drafts);
    const size_t round_start = text.size();
    Heard heard;
    for (const Draft& draft : drafts) {
      LoadedRow row;
      load_row(text, draft, &row);
      hear(row, &heard);
      const RoundPosition at = noise_position(text.size(), round_start);
      const RowVerdict verdict = is_real ? verify_row(sampler_, row.p, row.logits.data(), params_, at, row.draft)
                                         : rejection_written_out(row.p, at, row.draft);
      text.push_back(verdict.token);
      if (!verdict.accepted) return heard;
      ++heard.n_accepted;
    }
    append_extra(text, drafts.size());
    return heard;
  }

  // A regular step, and what is heard of the drafted token beside it.
  Heard look(Tokens& text, const Draft& draft) {
    LoadedRow row;
    Heard heard;
    load_row(text, draft, &row);
    hear(row, &heard);
    append_extra(text, 0);
    if (setup_.fault == Fault::kLookIsTaken) text.back() = draft.token;
    heard.n_accepted = text.back() == draft.token ? 1 : 0;
    return heard;
  }

  Heard take_unverified(Tokens& text, const std::vector<Draft>& drafts) {
    for (const Draft& draft : drafts) text.push_back(draft.token);
    append_extra(text, drafts.size());
    return {static_cast<int>(drafts.size()), {}, {}};
  }

  void append_extra(Tokens& text, size_t n_drafted) {
    const bool is_late = setup_.fault == Fault::kBonusFromRowBefore && n_drafted > 0;
    const Tokens prefix{text.begin(), text.end() - (is_late ? 1 : 0)};
    const std::vector<float>& logits = main_logits(prefix);
    const RowDistribution p = main_row(logits, prefix);
    text.push_back(regular_row(sampler_, p, logits.data(), params_, static_cast<uint32_t>(text.size())).token);
  }

  // --- the rules as they are

  Heard block_round(Tokens& text, const std::vector<Draft>& drafts) {
    const size_t round_start = text.size();
    BlockRound round;
    Heard heard;
    Tokens prefix = text;
    LoadedRow row;
    for (const Draft& draft : drafts) {
      load_row(prefix, draft, &row);
      hear(row, &heard);
      const RoundPosition at = noise_position(prefix.size(), round_start);
      const double mass = residual_mass(sampler_, row.p, round.joint, row.draft);
      judge_block_row(look_at_block_row(row.p, row.logits.data(), row.draft), params_, at, mass, &round);
      prefix.push_back(draft.token);
    }
    judge_last_block_row(params_, noise_position(prefix.size(), round_start), &round);
    heard.n_accepted = round.n_accepted;
    text.assign(prefix.begin(), prefix.begin() + static_cast<ptrdiff_t>(round_start) + round.n_accepted);
    if (static_cast<size_t>(round.n_accepted) == drafts.size()) {
      append_extra(text, drafts.size());
    } else {
      load_row(text, drafts[static_cast<size_t>(round.n_accepted)], &row);
      const RoundPosition at = noise_position(text.size(), round_start);
      text.push_back(block_residual(sampler_, row.p, row.logits.data(), params_, at, row.draft, round).token);
    }
    return heard;
  }

  // --- the rules written out, with the faults that lie inside of them

  TokenId residual_written_out(const RowDistribution& p, double factor, const DraftedToken& draft, RoundPosition at) {
    RandomStream noise = faulty(residual_stream(params_, at));
    if (setup_.fault == Fault::kSharedNoise) noise.purpose = RandomPurpose::kDraft;
    if (setup_.fault == Fault::kResidualOfRejection) factor = 1;
    if (setup_.fault == Fault::kResidualFromMain) return sample(sampler_.kernels(), p, noise);
    if (draft.q == nullptr) return sample(sampler_.kernels(), sampler_.without_token(p, draft.token), noise);
    const RowDistribution& q = *draft.q;
    return sampler_.kernels().residual_argmax({p.z, p.n, p.kept, p.log_norm}, static_cast<float>(factor),
                                              {q.z, q.n, q.kept, q.log_norm}, noise);
  }

  RowVerdict rejection_written_out(const RowDistribution& p, RoundPosition at, const DraftedToken& draft) {
    const double u = uniform_open(faulty(accept_stream(params_, at)).bits(0));
    if (u < probability(p, draft.token) / draft_probability(draft, draft.token)) return {true, draft.token, 0, false};
    return {false, residual_written_out(p, 1, draft, at), 0, false};
  }

  static double acceptance_written_out(const RowDistribution& p, double joint, const DraftedToken& draft) {
    double mass = 0;
    for (TokenId x = 0; x < p.n; ++x) mass += std::max(0.0, joint * probability(p, x) - draft_probability(draft, x));
    return joint == 1 ? 1 : mass / (mass + 1 - joint);
  }

  Heard block_round_written_out(Tokens& text, const std::vector<Draft>& drafts) {
    const size_t round_start = text.size(), n = drafts.size();
    size_t n_accepted = 0;
    double joint = 1, accepted_joint = 1;
    Heard heard;
    Tokens prefix = text;
    LoadedRow row;
    for (size_t i = 0; i <= n; ++i) {
      if (i < n) {
        load_row(prefix, drafts[i], &row);
        hear(row, &heard);
      }
      if (i > 0) {
        const double h = i < n ? acceptance_written_out(row.p, joint, row.draft) : joint;
        const double u =
            uniform_open(faulty(accept_stream(params_, noise_position(prefix.size() - 1, round_start))).bits(0));
        if (u < h) n_accepted = i, accepted_joint = joint;
        if (u >= h && setup_.fault == Fault::kStopAtFirstRejection) break;
      }
      if (i == n) break;
      joint = next_joint(joint, probability(row.p, drafts[i].token), draft_probability(row.draft, drafts[i].token));
      prefix.push_back(drafts[i].token);
    }
    heard.n_accepted = static_cast<int>(n_accepted);
    for (size_t i = 0; i < n_accepted; ++i) text.push_back(drafts[i].token);
    if (n_accepted == n) {
      append_extra(text, drafts.size());
    } else {
      load_row(text, drafts[n_accepted], &row);
      const RoundPosition at = noise_position(text.size(), round_start);
      text.push_back(residual_written_out(row.p, accepted_joint, row.draft, at));
    }
    return heard;
  }

  std::vector<ToyRound> rounds_;
};

}  // namespace bass::testing
