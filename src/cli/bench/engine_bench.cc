#include "cli/bench/engine_bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/check.h"
#include "cli/bench/gpu_timing.h"
#include "cli/number_lists.h"
#include "cli/shipped_draft.h"
#include "cli/validators.h"
#include "engine/device_choice.h"

namespace bass {
void EngineBenchArguments::add(CLI::App* app, std::initializer_list<std::string_view> names, Defaults defaults) {
  texts_ = std::move(defaults);
  arguments_.add(app, {"model", "quantize"});
  arguments_.add(app, names);
  for (const char* name : {"draft", "drafter"}) {  // read() drops the shipped draft where neither is given
    arguments_.say_default(name, "regular decoding, unless -d or --drafter is given");
  }
  arguments_.add(app, {"threads", "context", "kv_memory", "max_step_tokens", "attention", "activations", "kv_type",
                       "device", "json"});
  arguments_.say_default("context", "the longest sequence's tokens");
  const auto add_list = [&](const char* flag, const char* help, const char* type_name,
                            std::optional<std::string>* text) {
    if (text->has_value()) app->add_option(flag, **text, fmt::format("{} [{}]", help, **text))->type_name(type_name);
  };
  add_list("--batch", "sequences at once", "N,...", &texts_.batch);
  add_list("--prompt-tokens", "tokens of a prompt", "N,...", &texts_.n_prompt_tokens);
  add_list("--generate-tokens", "tokens generated a sequence", "N,...", &texts_.n_generated);
  app->add_option("--rounds", texts_.n_rounds,
                  fmt::format("times that each case runs, in turn, the machine measured between; medians count [{}]",
                              texts_.n_rounds))
      ->type_name("N")
      ->check(whole_number(1, 1000));
}

Status EngineBenchArguments::read() {
  options_.request.sampling.temperature = 0;
  options_.engine.prefix_cache_mib = 0;  // batches come again
  BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
  BASS_RETURN_IF_ERROR(check_has_model(options_));
  const auto read_list = [](const char* flag, const std::optional<std::string>& text, int max) {
    return text.has_value() ? parse_list(flag, *text, max) : Result<std::vector<int>>(std::vector<int>{1});
  };
  BASS_ASSIGN_OR_RETURN(const std::vector<int> batches, read_list("--batch", texts_.batch, kMaxBenchBatch));
  BASS_ASSIGN_OR_RETURN(const std::vector<int> prompts,
                        read_list("--prompt-tokens", texts_.n_prompt_tokens, kMaxBenchTokens));
  BASS_ASSIGN_OR_RETURN(const std::vector<int> generated,
                        read_list("--generate-tokens", texts_.n_generated, kMaxBenchTokens));
  options_.engine.max_batch = *std::max_element(batches.begin(), batches.end());
  if (!options_.engine.context_len.has_value()) {
    options_.engine.context_len =
        *std::max_element(prompts.begin(), prompts.end()) + *std::max_element(generated.begin(), generated.end());
  }
  const bool names_a_drafter = arguments_.has("draft") || arguments_.has("drafter");
  if (!names_a_drafter) drop_shipped_draft(&options_);
  const bool is_speculative = names_a_drafter && options_.request.speculation.drafter != DrafterChoice::kOff;
  if (!is_speculative && (arguments_.has("draft_length") || arguments_.has("verify"))) {
    return invalid_argument(
        fmt::format("{}: no drafter is named, so nothing would draft; add -d DRAFT.gguf or --drafter ngram",
                    arguments_.has("draft_length") ? "--draft-length" : "--verify"));
  }
  for (const int n_prompt_tokens : prompts) {
    for (const int n_generated : generated) {
      for (const int batch : batches) {
        cases_.push_back({batch, n_prompt_tokens, n_generated, false});
        if (is_speculative) cases_.push_back({batch, n_prompt_tokens, n_generated, true});
      }
    }
  }
  return ok_status();
}

std::vector<BenchCase> EngineBenchArguments::rounds() const {
  std::vector<BenchCase> rounds;
  for (int i = 0; i < texts_.n_rounds; ++i) rounds.insert(rounds.end(), cases_.begin(), cases_.end());
  return rounds;
}

namespace {

/// What the engine's device can do at best. gpu: null on a CPU. Of a GPU what its copies reach: its peaks are not
/// measured here, so work is compared with reading its bytes alone.
Result<MachineLimits> measure_device_limits(const Engine& engine, cuda::Device* gpu) {
  if (gpu == nullptr) return measure_limits(engine.options().n_threads, engine.model_info().step_bytes);
  MachineLimits limits;
  BASS_ASSIGN_OR_RETURN(limits.bandwidth_gb_s, measure_copy_gb_s(*gpu));
  return limits;
}

}  // namespace

MeasuredCases run_cases(Engine* engine, const Request& prototype, std::span<const BenchCase> cases,
                        const std::function<void(size_t)>& on_start,
                        const std::function<void(size_t, const BenchRun&)>& on_run) {
  MeasuredCases measured;
  Result<OpenedDevice> device = open_named_device(engine->options().device);  // beside the engine's own handle of it
  measured.status = device.status();
  if (!device.ok()) return measured;
  BenchRunner runner(engine, prototype);
  std::vector<MachineLimits> limits;
  const auto measure = [&] {
    Result<MachineLimits> now = measure_device_limits(*engine, device.value().gpu.get());
    if (now.ok()) limits.push_back(now.value());
    return now.status();
  };
  measured.status = runner.run(cases.front()).status();
  if (measured.status.ok()) measured.status = measure();
  for (size_t i = 0; i < cases.size() && measured.status.ok(); ++i) {
    on_start(i);
    Result<BenchRun> run = runner.run(cases[i]);
    measured.status = run.status();
    if (!run.ok()) break;
    on_run(i, run.value());
    ++measured.n_runs;
    measured.status = measure();
  }
  if (!limits.empty()) measured.limits = median_of(limits);
  return measured;
}

std::string_view operation_class_name(OperationClass kind) {
  static constexpr std::array<std::string_view, kOperationClasses> kNames{"int8_dot", "int16_dot", "f32_fma"};
  return kNames[static_cast<size_t>(kind)];
}

nlohmann::ordered_json operations_json(const Work& work) {
  nlohmann::ordered_json json;
  for (size_t i = 0; i < kOperationClasses; ++i) {
    json[std::string(operation_class_name(static_cast<OperationClass>(i)))] = work.operations[i];
  }
  return json;
}

std::string machine_line(std::string_view isa_name, int n_threads, const MachineLimits& limits) {
  std::string text = fmt::format("{}, {} thread{}: {:.1f} GB/s", isa_name, n_threads, n_threads == 1 ? "" : "s",
                                 limits.bandwidth_gb_s);
  for (size_t i = 0; i < kOperationClasses; ++i) {
    if (limits.peak_tops[i] == 0) continue;  // not measured
    text += fmt::format(", {} {:.2f} TOPS", operation_class_name(static_cast<OperationClass>(i)), limits.peak_tops[i]);
  }
  return text + "\n";
}

nlohmann::ordered_json machine_json(std::string_view isa_name, int n_threads, const MachineLimits& limits) {
  nlohmann::ordered_json peaks;
  for (size_t i = 0; i < kOperationClasses; ++i) {
    peaks[std::string(operation_class_name(static_cast<OperationClass>(i)))] = limits.peak_tops[i];
  }
  return {{"isa", isa_name},
          {"n_threads", n_threads},
          {"bandwidth_gb_s", limits.bandwidth_gb_s},
          {"peak_tops", std::move(peaks)}};
}

}  // namespace bass
