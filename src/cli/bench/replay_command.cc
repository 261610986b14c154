// bass bench replay: what draft-length policies would make of a trace at any batch size, on any machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "base/check.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/policy_list.h"
#include "cli/bench/table.h"
#include "cli/bench/trace_file.h"
#include "cli/interrupt.h"
#include "cli/number_lists.h"
#include "cli/validators.h"
#include "speculation/simulation/replay.h"

namespace bass {
namespace {

constexpr int kLongestFixed = 8;  // the fixed lengths that policies are compared with: 0 .. this

/// The engine's, or, without a spec, the study's of that name.
struct Policy {
  std::string text;
  std::optional<DraftLengthSpec> spec;
};

Result<std::vector<Policy>> parse_policies(const std::string& texts) {
  std::vector<Policy> policies;
  for (const std::string& piece : split_policies(texts)) {
    Policy policy{piece, std::nullopt};
    if (study_policy(piece, 0) == nullptr) {
      BASS_ASSIGN_OR_RETURN(policy.spec, parse_draft_length(piece));
    }
    policies.push_back(std::move(policy));
  }
  return policies;
}

std::vector<Column> speed_columns() {
  return {{"task", "task", -14},
          {"batch", "batch", 5},
          {"policy", "policy", -12},
          {"tokens/s", "tokens_per_s", 10, 1},
          {"/regular", "regular_ratio", 8, 3},
          {"/best fixed", "best_fixed_ratio", 11, 3},
          {"best", "best_fixed", 4},
          {"tokens/round", "tokens_per_round", 12, 3},
          {"length", "mean_length", 6, 2}};
}

std::vector<Column> acceptance_columns() {
  return {{"task", "task", -14},
          {"drafter", "drafter", -8},
          {"length", "length", 6},
          {"rounds", "n_rounds", 8},
          {"rejection", "rejection", 9, 4},
          {"block", "block", 9, 4},
          {"given x_1 .. x_i", "block_given_prefix", 16, 4}};
}

class BenchReplayCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "replay"; }
  [[nodiscard]] std::string_view summary() const override {
    return "simulate draft-length policies on a trace, at any batch size and for any machine";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench replay --trace sampled.trace --costs experiments/draft_length/machines.json \\\n"
           "      --machine h200-7.8b-int8 --batch 1,8,32,256\n"
           "  bass bench replay --trace sampled.trace --acceptance --by-task";
  }

  void add_options(CLI::App* app) override {
    const auto add = [&](const char* flag, auto& value, const char* help, const char* type_name) {
      return app->add_option(flag, value, help)->type_name(type_name);
    };
    add("--trace", trace_path_, "what `bass bench trace` wrote (needed)", "FILE");
    add("--costs", costs_path_, "JSON: what a machine's steps cost", "FILE");
    add("--machine", machine_name_, "that the file of costs has", "NAME");
    add("--batch", batches_, "sequences at once [1,8,32]", "N,...");
    add("--draft-length", policies_, "policies beside fixed:0 .. fixed:8, also bandit, gradient [goodput,bass]",
        "POLICY,...");
    add("--verify", verify_, "rejection or block [block]", "RULE")->check(one_of({"rejection", "block"}));
    add("--drafter", drafter_, "auto, model or ngram [auto]", "DRAFTER")->check(one_of({"auto", "model", "ngram"}));
    add("--steps", n_steps_, "of each simulation [40000 over batch, at least 2000]; 0: every sequence once", "N")
        ->check(whole_number(0, 1 << 24));
    add("--noise", options_.noise, "of a step's time, standard deviation of its logarithm [0.05]", "S")
        ->check(number_from(0, 1));
    add("--seed", options_.seed, "of all that is random [1]", "N");
    app->add_flag("--cold", is_cold_, "policies begin without knowing what steps cost");
    app->add_flag("--no-labels", hides_labels_, "policies hear what became of tokens, not how likely it was");
    app->add_flag("--by-task", is_by_task_, "each task (a prompt's \"id\") by itself, and not the mix of all");
    app->add_flag("--acceptance", wants_acceptance_, "tokens that the rules accept in expectation, no speed");
    app->add_flag("--json", is_json_, "print JSON, one object a line");
  }

  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    if (trace_path_.empty()) return invalid_argument("--trace FILE: missing; give what `bass bench trace` wrote");
    BASS_ASSIGN_OR_RETURN(const Trace trace, read_trace(trace_path_));
    const std::vector<Trace> parts = is_by_task_ ? by_task(trace) : std::vector<Trace>{trace};
    if (wants_acceptance_) return print_acceptance(parts, console);
    if (costs_path_.empty()) return invalid_argument("--costs FILE: missing; it says what a machine's steps take");
    BASS_ASSIGN_OR_RETURN(const MachineCosts machine, read_machine(costs_path_, machine_name_));
    BASS_ASSIGN_OR_RETURN(const std::vector<int> batches, parse_list("--batch", batches_, kMaxBenchBatch));
    BASS_ASSIGN_OR_RETURN(const std::vector<Policy> policies, parse_policies(policies_));
    options_.rule = verify_ == "block" ? VerifyRule::kBlock : VerifyRule::kRejection;
    options_.has_labels = !hides_labels_;
    options_.uses_model = drafter_ != "ngram" && !machine.draft_pass.empty() && has_model_drafts(trace);
    options_.uses_ngrams = drafter_ != "model";
    options_.min_ngram_order = min_ngram_order(options_.uses_model);
    Table table(speed_columns(), is_json_, &console->out);
    for (const Trace& part : parts) {
      for (const int batch : batches) BASS_RETURN_IF_ERROR(compare(part, machine, policies, batch, &table));
    }
    return check_interrupted();
  }

  static std::vector<Trace> by_task(const Trace& trace) {
    std::vector<Trace> parts;
    for (const TracedSequence& sequence : trace.sequences) {
      if (sequence.rounds.empty()) continue;
      auto part = std::find_if(parts.begin(), parts.end(),
                               [&](const Trace& known) { return known.sequences.front().task == sequence.task; });
      if (part == parts.end()) part = parts.insert(parts.end(), Trace{trace.max_drafts, trace.compares_tokens, {}});
      part->sequences.push_back(sequence);
    }
    return parts;
  }

  [[nodiscard]] std::string task_of(const Trace& part) const {
    return is_by_task_ ? part.sequences.front().task : std::string("all");
  }

  static bool has_model_drafts(const Trace& trace) {
    return std::any_of(trace.sequences.begin(), trace.sequences.end(), [](const TracedSequence& sequence) {
      return std::any_of(sequence.rounds.begin(), sequence.rounds.end(),
                         [](const TracedRound& round) { return !round.model.empty(); });
    });
  }

  Status compare(const Trace& trace, const MachineCosts& machine, const std::vector<Policy>& policies, int batch,
                 Table* table) {
    options_.batch = batch;
    options_.n_steps = n_steps_.value_or(std::max(2000, 40000 / batch));
    std::vector<Policy> all;
    for (int len = 0; len <= std::min(kLongestFixed, trace.max_drafts); ++len) {
      const std::string text = fmt::format("fixed:{}", len);
      all.push_back({text, parse_draft_length(text).value()});
    }
    const size_t n_fixed = all.size();
    all.insert(all.end(), policies.begin(), policies.end());
    std::vector<ReplayResult> results;
    for (const Policy& policy : all) {
      BASS_RETURN_IF_ERROR(check_interrupted());
      const auto chooser = policy.spec ? start_engine_policy(*policy.spec, trace, machine, !is_cold_)
                                       : study_policy(policy.text, trace.max_drafts);
      results.push_back(replay(trace, machine, chooser.get(), options_));
    }
    const auto best = std::max_element(
        results.begin(), results.begin() + static_cast<ptrdiff_t>(n_fixed),
        [](const ReplayResult& a, const ReplayResult& b) { return a.tokens_per_s() < b.tokens_per_s(); });
    for (size_t i = 0; i < all.size(); ++i) {
      const ReplayResult& result = results[i];
      const auto n_rounds = static_cast<double>(result.n_rounds);
      table->add({{"task", task_of(trace)},
                  {"batch", batch},
                  {"policy", all[i].text},
                  {"drafter", drafter_},
                  {"verify", verify_},
                  {"machine", machine_name_.empty() ? costs_path_ : machine_name_},
                  {"tokens_per_s", result.tokens_per_s()},
                  {"regular_ratio", result.tokens_per_s() / results.front().tokens_per_s()},
                  {"best_fixed_ratio", result.tokens_per_s() / best->tokens_per_s()},
                  {"best_fixed", best - results.begin()},
                  {"tokens_per_round", static_cast<double>(result.n_tokens) / n_rounds},
                  {"mean_length", static_cast<double>(result.n_drafted) / n_rounds},
                  {"draft_share", result.draft_s / result.seconds},
                  {"steps", result.n_steps}});
    }
    return ok_status();
  }

  Status print_acceptance(const std::vector<Trace>& parts, Console* console) {
    Table table(acceptance_columns(), is_json_, &console->out);
    for (const Trace& part : parts) {
      for (const bool is_model : {true, false}) {
        for (int len = 1; len <= part.max_drafts; ++len)
          add_acceptance(part, is_model, static_cast<size_t>(len), &table);
      }
    }
    return ok_status();
  }

  // Means over all rounds in which something is drafted.
  void add_acceptance(const Trace& trace, bool is_model, size_t len, Table* table) const {
    double rejection = 0, block = 0, given_prefix = 0;
    int64_t n_rounds = 0;
    for (const TracedSequence& sequence : trace.sequences) {
      for (const TracedRound& round : sequence.rounds) {
        const std::vector<DraftEvidence>& drafts = is_model ? round.model : round.ngram;
        if (drafts.empty()) continue;
        const auto drafted = std::span(drafts).first(std::min(len, drafts.size()));
        rejection += expected_accepted(VerifyRule::kRejection, drafted);
        block += expected_accepted(VerifyRule::kBlock, drafted);
        given_prefix += expected_block_accepted(drafted);
        ++n_rounds;
      }
    }
    if (n_rounds == 0) return;
    const auto n = static_cast<double>(n_rounds);
    table->add({{"task", task_of(trace)},
                {"drafter", is_model ? "model" : "ngram"},
                {"length", len},
                {"n_rounds", n_rounds},
                {"rejection", rejection / n},
                {"block", block / n},
                {"block_given_prefix", given_prefix / n}});
  }

  std::string trace_path_;
  std::string costs_path_;
  std::string machine_name_;
  std::string batches_ = "1,8,32";
  std::string policies_ = "goodput,bass";
  std::string verify_ = "block";
  std::string drafter_ = "auto";
  std::optional<int> n_steps_;
  ReplayOptions options_{.noise = 0.05};
  bool hides_labels_ = false;
  bool is_cold_ = false;
  bool is_by_task_ = false;
  bool wants_acceptance_ = false;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_replay() { return std::make_unique<BenchReplayCommand>(); }

}  // namespace bass
