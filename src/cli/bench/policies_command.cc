// bass bench policies: draft-length policies side by side on the same prompts, a few milliseconds each in turn.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/policy_list.h"
#include "cli/bench/table.h"
#include "cli/bench/turns.h"
#include "cli/bench/workload.h"
#include "cli/engine_loading.h"
#include "cli/explanation.h"
#include "cli/generation.h"
#include "cli/shipped_draft.h"
#include "cli/terminal_text.h"
#include "cli/validators.h"
#include "engine/machine.h"
#include "speculation/draft_length.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

/// A policy's round.
struct PolicyRun : BenchRun {
  int64_t n_tokens = 0;  // generated in all, those of steps with prompts' tokens too
  Json explanation;      // with --json an object, else a text; null where nobody has asked for it

  [[nodiscard]] double total_tokens_per_s() const {
    return steps_s() > 0 ? static_cast<double>(n_tokens) / steps_s() : 0;
  }
};

/// A policy and the engine that it has for itself.
struct Contestant {
  std::string policy;
  GenerateOptions options;
  std::unique_ptr<Engine> engine;
  std::vector<PolicyRun> runs;
  Status status;
};

bool is_regular(const std::string& policy) { return policy == "off"; }

/// 0 where no step of one of them was without a prompt's tokens.
double ratio(const PolicyRun& run, const PolicyRun& first) {
  return first.tokens_per_s() > 0 ? run.tokens_per_s() / first.tokens_per_s() : 0;
}

/// The same of all steps.
double total_ratio(const PolicyRun& run, const PolicyRun& first) {
  return first.total_tokens_per_s() > 0 ? run.total_tokens_per_s() / first.total_tokens_per_s() : 0;
}

std::vector<Column> policy_columns() {
  return {{"round", "round", -6},
          {"policy", "policy", -14},
          {"tokens/s", "tokens_per_s", 10, 1},
          {"/first", "first_ratio", 8, 3},
          {"total/first", "total_ratio", 12, 3},
          {"tokens", "tokens", 8},
          {"drafted", "drafted", 8},
          {"accepted", "accepted", 8}};
}

class BenchPoliciesCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "policies"; }
  [[nodiscard]] std::string_view summary() const override {
    return "draft lengths compared on your prompts, in turns of milliseconds";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench policies -m smollm2 --prompts prompts.jsonl --max-batch 8\n"
           "  bass bench policies -m smollm2 --prompts prompts.jsonl --draft-lengths off,fixed:2,bass,goodput --rounds "
           "5\n"
           "  bass bench policies -m smollm2 -p 'def f(n):' -n 8 --explain-speculation --json\n"
           "tokens/s and /first are of steps that decode alone, total/first is of all steps, with the prompts'.";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model",       "draft",
                         "prompt",      "file",
                         "prompts",     "chat",
                         "system",      "n",
                         "max_tokens",  "ignore_eos",
                         "temperature", "top_p",
                         "top_k",       "min_p",
                         "seed",        "drafter",
                         "verify",      "max_batch",
                         "threads",     "context",
                         "kv_memory",   "max_step_tokens",
                         "attention",   "activations",
                         "kv_type",     "device",
                         "json"});
    arguments_.add(app, {"quantize", "explain_speculation"});
    const auto add = [&](const char* flag, auto& value, const std::string& help, const char* type_name) {
      return app->add_option(flag, value, help)->type_name(type_name);
    };
    add("--draft-lengths", policies_, fmt::format("what is compared; off is regular decoding [{}]", policies_),
        "POLICY,...");
    add("--rounds", n_rounds_, fmt::format("of all policies [{}]", n_rounds_), "N")->check(whole_number(1, 1 << 20));
    add("--prompts-per-round", n_prompts_, "the next N of the prompts in each round [all]", "N")
        ->check(whole_number(1, 1 << 20));
    add("--slice-ms", slice_ms_, fmt::format("a policy's turn, in milliseconds [{}]", slice_ms_), "T")
        ->check(number_from(0, 60e3));
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    BASS_ASSIGN_OR_RETURN(const std::vector<PromptSpec> prompts, read_prompts(options_));
    BASS_ASSIGN_OR_RETURN(const std::vector<std::string> policies, parse_policy_list("--draft-lengths", policies_));
    BASS_RETURN_IF_ERROR(check_drafter());
    Turns turns(static_cast<int>(policies.size()), std::chrono::duration<double>(slice_ms_ / 1e3));
    std::deque<Contestant> contestants;
    for (const std::string& policy : policies) {
      BASS_RETURN_IF_ERROR(add_contestant(policy, &turns, console, &contestants));
      if (!is_regular(policy)) options_.is_draft_missing = false;  // it was said
    }
    Table table(policy_columns(), options_.json, &console->out);
    for (int round = 0; round < n_rounds_; ++round) {
      const std::vector<PromptSpec> chosen = prompts_of(prompts, round);
      for (Contestant& contestant : contestants) BASS_RETURN_IF_ERROR(prepare(chosen, &contestant, console));
      run_round(chosen, &turns, &contestants);
      for (const Contestant& contestant : contestants) BASS_RETURN_IF_ERROR(contestant.status);
      for (const Contestant& contestant : contestants) {
        table.add(row_of(contestant, contestants.front(), static_cast<size_t>(round)));
      }
    }
    if (options_.json) return ok_status();
    if (n_rounds_ > 1) print_medians(contestants, &table);
    for (const Contestant& contestant : contestants) {
      const Json& explanation = contestant.runs.back().explanation;
      if (explanation.is_null()) continue;
      console->err.write(fmt::format("\n{}, the last round:\n{}", contestant.policy, explanation.get<std::string>()));
    }
    return ok_status();
  }

  [[nodiscard]] Status check_drafter() const {
    if (options_.request.speculation.drafter != DrafterChoice::kOff) return ok_status();
    return invalid_argument("--drafter off: nothing would draft; regular decoding is --draft-lengths off");
  }

  // Engines with weights of their own would push one another's out of the caches, where a process has its own in them.
  static const Engine* weights_for_next(const std::deque<Contestant>& contestants) {
    const Engine* latest = nullptr;
    for (const Contestant& contestant : contestants) {
      const bool has_more = latest == nullptr || latest->options().draft_path.empty();
      if (contestant.engine != nullptr && has_more) latest = contestant.engine.get();
    }
    return latest;
  }

  Status add_contestant(const std::string& policy, Turns* turns, Console* console,
                        std::deque<Contestant>* contestants) const {
    const Engine* weights_from = weights_for_next(*contestants);
    Contestant& contestant = contestants->emplace_back(Contestant{policy, options_, nullptr, {}, ok_status()});
    GenerateOptions& options = contestant.options;
    options.engine.weights_from = weights_from;
    options.engine.prefix_cache_mib = 0;  // each round reads its prompts
    options.engine.gate = turns->gate(static_cast<int>(contestants->size()) - 1);
    if (is_regular(policy)) {
      drop_shipped_draft(&options);
      options.engine.draft_path.clear();
      options.request.speculation.drafter = DrafterChoice::kOff;
    } else {
      options.request.speculation.draft_length = policy;
    }
    BASS_ASSIGN_OR_RETURN(contestant.engine, load_engine(options, console));
    return ok_status();
  }

  [[nodiscard]] std::vector<PromptSpec> prompts_of(const std::vector<PromptSpec>& prompts, int round) const {
    if (!n_prompts_) return prompts;
    std::vector<PromptSpec> chosen;
    const size_t begin = static_cast<size_t>(round) * static_cast<size_t>(*n_prompts_);
    for (int i = 0; i < *n_prompts_; ++i) {
      chosen.push_back(prompts[(begin + static_cast<size_t>(i)) % prompts.size()]);
    }
    return chosen;
  }

  static Request request_of(const PromptSpec& prompt, const Contestant& contestant) {
    Request request = prompt.request;
    request.speculation = contestant.options.request.speculation;
    return request;
  }

  // All engines share the machine, but each is the first to touch its own memory.
  static Status prepare(const std::vector<PromptSpec>& prompts, Contestant* contestant, Console* console) {
    std::vector<Request> requests;
    for (const PromptSpec& prompt : prompts) requests.push_back(request_of(prompt, *contestant));
    Status status = contestant->engine->populate_kv(requests);
    if (status.code() != StatusCode::kResourceExhausted) return status;
    console->err.write(fmt::format("warning: {}: finding memory for the KV cache is measured with the steps: {}\n",
                                   contestant->policy, one_line_for_terminal(status.message())));
    return ok_status();
  }

  static void run_round(const std::vector<PromptSpec>& prompts, Turns* turns, std::deque<Contestant>* contestants) {
    turns->begin_round();
    std::vector<std::jthread> threads;
    const int n = static_cast<int>(contestants->size());
    int n_started = 0;
    try {
      for (; n_started < n; ++n_started) {
        threads.emplace_back(
            [&prompts, turns, i = n_started, contestant = &(*contestants)[static_cast<size_t>(n_started)]] {
              contestant->status = try_generate(prompts, contestant, [=] { turns->be_ready(i); });
              turns->end_round(i);
            });
      }
    } catch (const std::system_error& error) {
      for (int i = n_started; i < n; ++i) turns->end_round(i);  // else the others would wait for their turn
      (*contestants)[static_cast<size_t>(n_started)].status = {StatusCode::kResourceExhausted, error.what()};
    }
  }

  static Status try_generate(const std::vector<PromptSpec>& prompts, Contestant* contestant,
                             const std::function<void()>& on_submitted) {
    try {
      return generate(prompts, contestant, on_submitted);
    } catch (const std::exception& error) {
      return {StatusCode::kResourceExhausted, error.what()};
    }
  }

  static Status generate(std::vector<PromptSpec> prompts, Contestant* contestant,
                         const std::function<void()>& on_submitted) {
    for (PromptSpec& prompt : prompts) prompt.request = request_of(prompt, *contestant);
    contestant->engine->reset_stats();
    PolicyRun run{{contestant->engine->stats(), {}}, 0, {}};
    BASS_ASSIGN_OR_RETURN(const GenerationResult result,
                          run_generation(contestant->engine.get(), std::move(prompts), {.on_submitted = on_submitted}));
    BASS_RETURN_IF_ERROR(check_all_ended_well(result));
    run.end = result.stats;
    run.n_tokens = summarise(result).completion_tokens;
    const GenerateOptions& options = contestant->options;
    if (options.explain_speculation) {
      run.explanation = options.json ? explanation_json(result, options) : Json(explanation_text(result, options));
    }
    contestant->runs.push_back(run);
    return ok_status();
  }

  static Json row_of(const Contestant& contestant, const Contestant& first, size_t round) {
    const PolicyRun& run = contestant.runs[round];
    const SpeculationStats& begin = run.begin.speculation;
    const SpeculationStats& end = run.end.speculation;
    Json json{{"round", round},
              {"policy", contestant.policy},
              {"tokens_per_s", run.tokens_per_s()},
              {"first_ratio", ratio(run, first.runs[round])},
              {"total_tokens_per_s", run.total_tokens_per_s()},
              {"total_ratio", total_ratio(run, first.runs[round])},
              {"decode_s", run.decode_s()},
              {"tokens", run.decode_tokens()},
              {"drafted", end.drafted - begin.drafted},
              {"accepted", end.accepted - begin.accepted},
              {"sequence_steps", run.n_sequence_steps()}};
    if (!run.explanation.is_null()) json["explanation"] = run.explanation;
    return json;
  }

  static void print_medians(const std::deque<Contestant>& contestants, Table* table) {
    for (const Contestant& contestant : contestants) {
      std::vector<double> speeds;
      std::vector<double> ratios;
      std::vector<double> total_ratios;
      for (size_t round = 0; round < contestant.runs.size(); ++round) {
        speeds.push_back(contestant.runs[round].tokens_per_s());
        total_ratios.push_back(total_ratio(contestant.runs[round], contestants.front().runs[round]));
        ratios.push_back(ratio(contestant.runs[round], contestants.front().runs[round]));
      }
      table->add({{"round", "median"},
                  {"policy", contestant.policy},
                  {"tokens_per_s", median_of(speeds)},
                  {"first_ratio", median_of(ratios)},
                  {"total_ratio", median_of(total_ratios)}});
    }
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string policies_ = "off,fixed:1,fixed:2,fixed:4,goodput";
  int n_rounds_ = 3;
  std::optional<int> n_prompts_;
  double slice_ms_ = 20;
};

}  // namespace

std::unique_ptr<Command> make_bench_policies() { return std::make_unique<BenchPoliciesCommand>(); }

}  // namespace bass
