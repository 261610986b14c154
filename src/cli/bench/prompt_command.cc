// bass bench prompt: how fast prompts are read, against the machine's limit and the weight formats' ceilings.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/thread_team.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/ceiling.h"
#include "cli/bench/engine_bench.h"
#include "cli/engine_loading.h"
#include "model/model_file.h"

namespace bass {
namespace {

/// Multiplications and additions of one row in the layers' matrices, by format.
std::map<DType, double> operations_by_format(const ModelFile& model) {
  std::map<DType, double> operations;
  for (const LayerRefs& layer : model.weights.layers) {
    for_each_matrix(layer,
                    [&](const MatrixRef& matrix) { operations[matrix.type] += 2.0 * matrix.n_out * matrix.n_in; });
  }
  return operations;
}

/// The best ceiling of each of a model's formats, 10^12 operations a second.
using Ceilings = std::map<DType, double>;

Ceilings measure_ceilings(const cpu::Kernels& kernels, const ModelFile& model, int n_planes, int n_threads) {
  constexpr int kRows[] = {12, 32};
  ThreadTeam team(n_threads);
  Ceilings ceilings;
  for (const auto& [type, operations] : operations_by_format(model)) {
    for (const int n_rows : kRows) {
      ceilings[type] = std::max(ceilings[type], measure_ceiling_tops(kernels, type, n_rows, n_planes, &team));
    }
  }
  return ceilings;
}

Ceilings median_of(const std::vector<Ceilings>& rounds) {
  Ceilings medians;
  for (const auto& [type, tops] : rounds.front()) {
    std::vector<double> all;
    for (const Ceilings& round : rounds) all.push_back(round.at(type));
    medians[type] = middle_of(&all, [](double value) { return value; });
  }
  return medians;
}

/// The least time of a prompt's rows at the ceilings; attention at the peak of its instructions.
double ceiling_seconds(const ModelFile& model, const Ceilings& ceilings, const Work& work, double n_rows, int n_planes,
                       const MachineLimits& limits) {
  double seconds = 0;
  double float_operations = 0;
  for (const auto& [type, operations] : operations_by_format(model)) {
    const bool is_quantised = cpu::PackedMatrix{type, 0, 0, nullptr}.is_quantised();
    if (!is_quantised) float_operations += operations * n_rows;
    seconds += operations * n_rows * (is_quantised ? n_planes : 1) / (ceilings.at(type) * 1e12);
  }
  Work rest;
  rest[OperationClass::kInt16Dot] = work[OperationClass::kInt16Dot];
  rest[OperationClass::kF32Fma] = std::max(work[OperationClass::kF32Fma] - float_operations, 0.0);
  return seconds + limit_seconds(rest, limits);
}

struct PromptTimes {
  std::vector<double> seconds;  // of the rounds
  Work work;                    // of one round
};

class BenchPromptCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "prompt"; }
  [[nodiscard]] std::string_view summary() const override { return "how fast prompts are read"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench prompt -m smollm2 --prompt-tokens 128,256,512\n"
           "  bass bench prompt -m smollm2 --batch 8 --prompt-tokens 64 --json";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {},
                   {.batch = "1", .n_prompt_tokens = "128,256,512", .n_generated = std::nullopt, .n_rounds = 5});
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.read());
    const GenerateOptions& options = arguments_.options();
    const std::vector<BenchCase>& cases = arguments_.cases();
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options, console));
    BASS_ASSIGN_OR_RETURN(const ModelFile model, load_named_model(options));
    BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
    const int n_threads = engine->options().n_threads;
    const int n_planes = options.engine.activations == ActivationKind::kInt16 ? 2 : 1;
    const std::vector<BenchCase> rounds = arguments_.rounds();
    std::vector<PromptTimes> times(cases.size());
    std::vector<Ceilings> ceilings;  // behind each run, as they move with the machine
    const MeasuredCases measured = run_cases(
        engine.get(), options.request, rounds, [](size_t) {},
        [&](size_t i, const BenchRun& run) {
          PromptTimes& prompt = times[i % cases.size()];
          prompt.seconds.push_back(run.prefill_s());
          prompt.work = run.prefill_work();
          ceilings.push_back(measure_ceilings(*kernels, model, n_planes, n_threads));
        });
    BASS_RETURN_IF_ERROR(measured.status);
    const std::string label = model_label(options.engine.model_path, engine->model_info().is_synthetic);
    const Ceilings ceiling = median_of(ceilings);
    Table table({{"prompt", "prompt_tokens", 7},
                 {"batch", "batch", 5},
                 {"s", "s", 8, 4},
                 {"tokens/s", "tokens_per_s", 9, 1},
                 {"limit %", "limit_fraction", 8, 1, 100},
                 {"ceiling %", "ceiling_fraction", 9, 1, 100}},
                options.json, &console->out);
    for (size_t i = 0; i < cases.size(); ++i) {
      const double median_s = middle_of(&times[i].seconds, [](double seconds) { return seconds; });
      const double n_rows = 1.0 * cases[i].batch * cases[i].n_prompt_tokens;
      const double ceiling_s = ceiling_seconds(model, ceiling, times[i].work, n_rows, n_planes, measured.limits);
      table.add({{"prompt_tokens", cases[i].n_prompt_tokens},
                 {"batch", cases[i].batch},
                 {"s", median_s},
                 {"tokens_per_s", n_rows / median_s},
                 {"limit_fraction", limit_fraction(times[i].work, measured.limits, median_s)},
                 {"ceiling_fraction", ceiling_s / median_s},
                 {"machine", machine_json(kernels->name, n_threads, measured.limits)},
                 {"model", label}});
    }
    if (!options.json) console->err.write(label + ", " + machine_line(kernels->name, n_threads, measured.limits));
    return ok_status();
  }

  EngineBenchArguments arguments_;
};

}  // namespace

std::unique_ptr<Command> make_bench_prompt() { return std::make_unique<BenchPromptCommand>(); }

}  // namespace bass
