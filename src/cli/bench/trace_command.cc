// bass bench trace: what each drafter would have proposed behind every token of generated texts, for `bass bench
// replay`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/trace_file.h"
#include "cli/bench/workload.h"
#include "cli/engine_loading.h"
#include "cli/generation.h"
#include "cli/validators.h"
#include "executor/draft_trace.h"

namespace bass {
namespace {

constexpr uint64_t kTraceSeed = 1;

/// One drafter's evidence, by sequence in the order of submission.
class Recorder final : public DraftTrace {
 public:
  struct Step {
    DraftSource source = DraftSource::kModel;
    std::vector<DraftEvidence> evidence;
  };
  void add(RequestId request, int choice_idx, DraftSource source, std::span<const DraftEvidence> evidence) override {
    steps_[{request, choice_idx}].push_back({source, {evidence.begin(), evidence.end()}});
  }
  [[nodiscard]] std::map<std::pair<RequestId, int>, std::vector<Step>> take() { return std::exchange(steps_, {}); }

 private:
  std::map<std::pair<RequestId, int>, std::vector<Step>> steps_;
};

/// "code" of the id "code/17".
std::string task_of(const PromptResult& prompt) {
  if (!prompt.id.has_value() || !prompt.id->is_string()) return "";
  const auto id = prompt.id->get<std::string>();
  return id.substr(0, id.find('/'));
}

class BenchTraceCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "trace"; }
  [[nodiscard]] std::string_view summary() const override {
    return "record what drafts would have been worth, for replay";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench trace -m smollm2 --prompts prompts.jsonl --temperature 0.8 > sampled.trace\n"
           "  bass bench trace -m main.gguf -d draft.gguf --prompts prompts.jsonl --temperature 0 > greedy.trace";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model",     "draft",     "quantize",    "prompt",     "file",        "prompts", "chat",
                         "system",    "n",         "max_tokens",  "ignore_eos", "temperature", "top_p",   "top_k",
                         "min_p",     "seed",      "drafter",     "verify",     "max_batch",   "threads", "context",
                         "kv_memory", "attention", "activations", "kv_type",    "device"});
    arguments_.say_default("seed", fmt::format("{}", kTraceSeed));
    arguments_.say_default("verify", "rejection, which also stands for block: both draft with the same noise");
    app->add_option("--max-drafts", max_drafts_,
                    fmt::format("tokens that a drafter proposes at most [{}]", max_drafts_))
        ->type_name("N")
        ->check(whole_number(1, kMaxDraftLen));
  }
  int run(Console* console) override { return finish(console, trace(console)); }

 private:
  Status trace(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    set_request();
    BASS_ASSIGN_OR_RETURN(std::vector<PromptSpec> prompts, read_prompts(options_));
    for (PromptSpec& prompt : prompts) BASS_RETURN_IF_ERROR(make_repeatable(&prompt));
    Recorder recorder;
    options_.engine.trace = &recorder;
    options_.engine.prefix_cache_mib = 0;
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options_, console));
    std::vector<TracedSequence> sequences;
    for (const DrafterChoice drafter : drafters(engine->draft_info().has_value())) {
      BASS_RETURN_IF_ERROR(record(engine.get(), drafter, prompts, &recorder, &sequences));
    }
    console->out.write(header(*engine).dump() + "\n");
    for (const TracedSequence& sequence : sequences) console->out.write(trace_line(sequence));
    return ok_status();
  }

  // `rejection` and `block` draft with the same noise, so one trace serves both. A run is to be repeated by each
  // drafter.
  void set_request() {
    Request& request = options_.request;
    if (!request.seed) request.seed = kTraceSeed;
    if (request.speculation.verify != VerifyRule::kMatch) request.speculation.verify = VerifyRule::kRejection;
    request.speculation.draft_length = fmt::format("fixed:{}", max_drafts_);
  }

  // A line's own keys count, but for those that would make the drafters' runs differ: what drafts is the command
  // line's, and "seed": null is the trace's default.
  Status make_repeatable(PromptSpec* prompt) const {
    Request& request = prompt->request;
    if (request.time_budget_s) {
      return invalid_argument(
          fmt::format("{}: \"time_budget\": a trace runs to the end; leave it out", prompt->origin));
    }
    if (!request.seed) request.seed = kTraceSeed;
    request.speculation = options_.request.speculation;
    return ok_status();
  }

  [[nodiscard]] std::vector<DrafterChoice> drafters(bool has_model) const {
    switch (options_.request.speculation.drafter) {
      case DrafterChoice::kModel:
      case DrafterChoice::kNgram:
        return {options_.request.speculation.drafter};
      case DrafterChoice::kAuto:
        if (has_model) return {DrafterChoice::kModel, DrafterChoice::kNgram};
        return {DrafterChoice::kNgram};
      case DrafterChoice::kOff:
        break;
    }
    return {DrafterChoice::kOff};
  }

  // Adds a drafter's evidence to the sequences, which the first drafter makes.
  static Status record(Engine* engine, DrafterChoice drafter, std::vector<PromptSpec> prompts, Recorder* recorder,
                       std::vector<TracedSequence>* sequences) {
    for (PromptSpec& prompt : prompts) prompt.request.speculation.drafter = drafter;
    BASS_ASSIGN_OR_RETURN(const GenerationResult result, run_generation(engine, std::move(prompts), {}));
    BASS_RETURN_IF_ERROR(check_all_ended_well(result));
    const auto steps = recorder->take();
    size_t sequence_idx = 0;
    for (const PromptResult& prompt : result.prompts) {
      for (const ChoiceResult& choice : prompt.choices) {
        const auto found = steps.find({prompt.request_id, choice.index});
        BASS_CHECK(found != steps.end());  // a token has a step
        if (sequence_idx == sequences->size()) {
          sequences->push_back({task_of(prompt), prompt.n_prompt_tokens, static_cast<int>(choice.tokens.size())});
          sequences->back().rounds.resize(found->second.size());
        }
        add_steps(found->second, &(*sequences)[sequence_idx]);
        ++sequence_idx;
      }
    }
    return ok_status();
  }

  static void add_steps(const std::vector<Recorder::Step>& steps, TracedSequence* sequence) {
    BASS_CHECK(steps.size() == sequence->rounds.size());  // drafters do not change the text
    for (size_t i = 0; i < steps.size(); ++i) {
      TracedRound& round = sequence->rounds[i];
      if (steps[i].source == DraftSource::kModel) {
        round.model = steps[i].evidence;
      } else {
        round.ngram = steps[i].evidence;
        round.ngram_order = ngram_order(steps[i].source);
      }
    }
  }

  [[nodiscard]] nlohmann::ordered_json header(const Engine& engine) const {
    const SamplingOptions& sampling = options_.request.sampling;
    nlohmann::ordered_json json{{"trace", 1},
                                {"model", model_label(options_.engine.model_path, engine.model_info().is_synthetic)},
                                {"draft", nullptr},
                                {"temperature", sampling.temperature},
                                {"top_p", sampling.top_p},
                                {"top_k", sampling.top_k},
                                {"min_p", sampling.min_p}};
    if (engine.draft_info()) json["draft"] = engine.draft_info()->name;
    const bool compares = sampling.temperature == 0 || options_.request.speculation.verify == VerifyRule::kMatch;
    json["verify"] = verify_rule_name(compares ? VerifyRule::kMatch : VerifyRule::kRejection);
    json["max_drafts"] = max_drafts_;
    return json;
  }

  TableArguments arguments_;
  GenerateOptions options_;
  int max_drafts_ = 8;
};

}  // namespace

std::unique_ptr<Command> make_bench_trace() { return std::make_unique<BenchTraceCommand>(); }

}  // namespace bass
