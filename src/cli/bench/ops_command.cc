// bass bench ops: every kernel of a model's step by itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/check.h"
#include "cli/bench/attention_bench.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/engine_bench.h"
#include "cli/bench/kernel_ops.h"
#include "cli/bench/sized_limits.h"
#include "cli/bench/timing.h"
#include "cli/engine_loading.h"
#include "cli/interrupt.h"
#include "cli/number_lists.h"
#include "cli/validators.h"
#include "executor/executor.h"

namespace bass {
namespace {

constexpr int kMaxRows = 512;

std::vector<KernelOp> all_ops(const KernelInputs& inputs) {
  std::vector<KernelOp> ops = matmul_ops(inputs);
  for (auto* make : {row_ops, vocabulary_ops}) {
    for (KernelOp& op : make(inputs)) ops.push_back(std::move(op));
  }
  return ops;
}

class BenchOpsCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "ops"; }
  [[nodiscard]] std::string_view summary() const override { return "every kernel of a model's step by itself"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench ops -m smollm2 --rows 1,8,32\n"
           "  BASS_FORCE_ISA=avx2 bass bench ops -m smollm2 --check --json";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model", "quantize", "threads", "attention", "activations", "kv_type", "json"});
    app->add_option("--rows", rows_, fmt::format("tokens of a step [{}]", rows_))->type_name("N,...");
    app->add_option("--context", context_, fmt::format("positions that attention sees [{}]", context_))
        ->type_name("N")
        ->check(whole_number(1, kMaxBenchTokens));
    app->add_flag("--check", checks_,
                  "compare kernels with the reference or with plain loops first (attention has its tests)");
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    BASS_RETURN_IF_ERROR(check_cpu_activations(options_.engine.activations));
    BASS_ASSIGN_OR_RETURN(const std::vector<int> rows, parse_list("--rows", rows_, kMaxRows));
    BASS_ASSIGN_OR_RETURN(const ModelFile file, load_named_model(options_));
    ThreadTeam team(threads_or_all(options_.engine.n_threads));
    constexpr int kPages = kMaxRows / cpu::kKvPageLen + 1;  // for writing keys and values
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<cpu::CpuModel> model,
                          cpu::CpuModel::load(file, {options_.engine.kv, kPages, cpu::kKvPageLen}, &team));
    model->prepare_positions(2);
    KernelInputs inputs{.file = &file, .model = model.get(), .n_threads = team.n_threads()};
    inputs.n_planes = options_.engine.activations == ActivationKind::kInt16 ? 2 : 1;
    BASS_ASSIGN_OR_RETURN(inputs.kernels, cpu::select_kernels());
    BASS_ASSIGN_OR_RETURN(SizedLimits limits, SizedLimits::measure(team.n_threads()));
    Table table(columns(), options_.json, &console->out);
    for (const int n_rows : rows) {
      inputs.n_rows = n_rows;
      for (const KernelOp& op : all_ops(inputs)) {
        BASS_RETURN_IF_ERROR(check_interrupted());
        if (checks_ && !op.check()) {
          return internal_error(fmt::format("{} {}, {} rows on {}: differs from the reference", op.name, op.shape,
                                            n_rows, inputs.kernels->name));
        }
        const Timing timing = time_on_team(&team, op.run);
        BASS_RETURN_IF_ERROR(add_row(inputs, op, timing.median_s, &limits, &table));
      }
      BASS_RETURN_IF_ERROR(bench_attention(inputs, context_, &team, &limits, &table));
    }
    if (!options_.json) {
      console->err.write(fmt::format("{}, {}, {} threads\n", label(inputs), inputs.kernels->name, inputs.n_threads));
    }
    return ok_status();
  }

  [[nodiscard]] std::string label(const KernelInputs& inputs) const {
    return model_label(options_.engine.model_path, inputs.file->config.is_synthetic);
  }

  Status add_row(const KernelInputs& inputs, const KernelOp& op, double seconds, SizedLimits* sized_limits,
                 Table* table) const {
    BASS_ASSIGN_OR_RETURN(const MachineLimits limits, sized_limits->of(op.set_bytes));
    const bool was_checked = checks_ && op.check != nullptr;
    table->add({{"op", op.name},
                {"shape", op.shape},
                {"rows", inputs.n_rows},
                {"s", seconds},
                {"gb_s", op.work.bytes / seconds * 1e-9},
                {"gop_s", op.work.total_operations() / seconds * 1e-9},
                {"bytes", op.work.bytes},
                {"operations", operations_json(op.work)},
                {"limit_fraction", limit_fraction(op.work, limits, seconds)},
                {"is_checked", was_checked},
                {"isa", inputs.kernels->name},
                {"n_threads", inputs.n_threads},
                {"model", label(inputs)}});
    return ok_status();
  }

  /// n_rows sequences that decode, in the model's heads; tests check it, with all of its layouts.
  Status bench_attention(const KernelInputs& inputs, int context, ThreadTeam* team, SizedLimits* limits,
                         Table* table) const {
    const ModelConfig& config = inputs.file->config;
    const AttentionShape shape{config.n_heads, config.n_kv_heads, config.head_dim, options_.engine.kv};
    const std::vector<int> lens(static_cast<size_t>(inputs.n_rows), context);
    const int64_t n_tokens = int64_t{inputs.n_rows} * (context + cpu::kKvPageLen);
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<AttentionBench> bench,
                          make_cpu_attention_bench(shape, {inputs.n_rows, 1, context, n_tokens}, team));
    BASS_ASSIGN_OR_RETURN(const std::vector<AttentionTiming> timings,
                          bench->measure({&options_.engine.attention, 1}, lens, 1));
    const AttentionTiming& timing = timings.front();
    KernelOp op;
    op.name = "attention";
    op.shape = fmt::format("{}/{} heads, {} seen", shape.n_heads, shape.n_kv_heads, context);
    op.work = timing.work;
    op.set_bytes = timing.work.bytes * kCpuAttentionLayers;
    return add_row(inputs, op, timing.median_s, limits, table);
  }

  static std::vector<Column> columns() {
    return {{"kernel", "op", -17},
            {"size", "shape", -22},
            {"rows", "rows", 4},
            {"us", "s", 9, 1, 1e6},
            {"GB/s", "gb_s", 7, 1},
            {"GOP/s", "gop_s", 8, 1},
            {"of limit %", "limit_fraction", 10, 1, 100}};
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string rows_ = "1,8,32";
  int context_ = 512;
  bool checks_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_ops() { return std::make_unique<BenchOpsCommand>(); }

}  // namespace bass
