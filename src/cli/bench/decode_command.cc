// bass bench decode: tokens a second of whole batches, as llama-batched-bench prints them.
#include <CLI/CLI.hpp>

#include "base/check.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/engine_bench.h"
#include "cli/engine_loading.h"

namespace bass {
namespace {

nlohmann::ordered_json row_json(const BenchCase& bench_case, const BenchRun& run, const MachineLimits& limits) {
  const int pp = bench_case.n_prompt_tokens, tg = bench_case.n_generated, batch = bench_case.batch;
  const double prefill_s = run.prefill_s();
  const double decode_s = run.decode_s();
  const int64_t n_kv = int64_t{batch} * (pp + tg);
  const auto rate = [](double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; };
  return {{"PP", pp},
          {"TG", tg},
          {"B", batch},
          {"N_KV", n_kv},
          {"T_PP", prefill_s},
          {"S_PP", rate(static_cast<double>(batch) * pp, prefill_s)},
          {"T_TG", decode_s},
          {"S_TG", run.tokens_per_s()},
          {"T", prefill_s + decode_s},
          {"S", rate(static_cast<double>(n_kv), prefill_s + decode_s)},
          {"mode", bench_case.is_speculative ? "speculative" : "regular"},
          {"bandwidth_gb_s", limits.bandwidth_gb_s},
          {"peak_tops", limits.peak_tops[static_cast<size_t>(OperationClass::kInt8Dot)]},
          {"limit_fraction", limit_fraction(run.decode_work(), limits, decode_s)}};
}

std::vector<Column> decode_columns() {
  return {{"PP", "PP", 5},
          {"TG", "TG", 5},
          {"B", "B", 4},
          {"N_KV", "N_KV", 7},
          {"T_PP s", "T_PP", 8, 3},
          {"S_PP t/s", "S_PP", 9, 2},
          {"T_TG s", "T_TG", 8, 3},
          {"S_TG t/s", "S_TG", 9, 2},
          {"T s", "T", 8, 3},
          {"S t/s", "S", 9, 2},
          {"mode", "mode", -11},
          {"limit %", "limit_fraction", 7, 1, 100}};
}

class BenchDecodeCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "decode"; }
  [[nodiscard]] std::string_view summary() const override { return "tokens a second of batches, and of the limit"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench decode -m smollm2 --batch 1,2,4,8\n"
           "  bass bench decode -m main.gguf -d draft.gguf --batch 8 --prompt-tokens 64 --generate-tokens 64 --json";
  }
  void add_options(CLI::App* app) override { arguments_.add(app, {"draft", "drafter", "draft_length", "verify"}, {}); }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.read());
    const GenerateOptions& options = arguments_.options();
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options, console));
    const std::string label = model_label(options.engine.model_path, engine->model_info().is_synthetic);
    const std::vector<BenchCase>& cases = arguments_.cases();
    std::vector<std::vector<BenchRun>> runs(cases.size());
    const MeasuredCases measured = run_cases(
        engine.get(), options.request, arguments_.rounds(), [](size_t) {},
        [&](size_t i, const BenchRun& run) { runs[i % cases.size()].push_back(run); });
    Table table(decode_columns(), options.json, &console->out);
    for (size_t i = 0; i < runs.size() && !runs[i].empty(); ++i) {
      const BenchRun& median = middle_of(&runs[i], [](const BenchRun& run) { return run.decode_s(); });
      nlohmann::ordered_json row = row_json(cases[i], median, measured.limits);
      row["model"] = label;
      table.add(row);
    }
    if (!options.json && measured.n_runs > 0) {
      console->err.write(label + ", " + machine_line(engine->isa_name(), engine->options().n_threads, measured.limits));
    }
    return measured.status;
  }

  EngineBenchArguments arguments_;
};

}  // namespace

std::unique_ptr<Command> make_bench_decode() { return std::make_unique<BenchDecodeCommand>(); }

}  // namespace bass
