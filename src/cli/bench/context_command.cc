// bass bench context: how the cost of a decode step grows with sequences and their contexts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/check.h"
#include "base/memory.h"
#include "base/thread_team.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/context_bench.h"
#include "cli/bench/engine_bench.h"
#include "cli/bench/sized_limits.h"
#include "cli/engine_loading.h"
#include "cli/interrupt.h"
#include "cli/number_lists.h"

namespace bass {
namespace {

constexpr int kContextRounds = 3;
constexpr int64_t kDefaultMemoryMib = 8192;

class BenchContextCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "context"; }
  [[nodiscard]] std::string_view summary() const override {
    return "how the cost of a decode step grows with sequences and contexts";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench context -m smollm2 --batch 1,8,32,64 --context 256,1024,4096,8000 --kv-memory 13000\n"
           "  bass bench context -m smollm2 --batch 32 --context 2048 --shared";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model", "quantize", "threads", "attention", "activations", "kv_type", "kv_memory", "json"});
    arguments_.say_default("kv_memory", fmt::format("{}, or what there is", kDefaultMemoryMib));
    app->add_option("--batch", batch_, fmt::format("sequences at once [{}]", batch_))->type_name("N,...");
    app->add_option("--context", context_, fmt::format("tokens of each sequence [{}]", context_))->type_name("N,...");
    app->add_flag("--shared", is_shared_, "all sequences continue one prompt, whose pages they share");
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  struct Cell {
    ContextCase context_case;
    std::vector<ContextTiming> rounds;
    std::vector<MachineLimits> limits;  // behind each round
  };

  Status bench(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    BASS_ASSIGN_OR_RETURN(const ModelFile file, load_named_model(options_));
    ExecutorOptions executor;
    BASS_ASSIGN_OR_RETURN(std::vector<Cell> cells, make_cells(file, console, &executor));
    const int max_context = executor.context_len - kCpuPageLen;
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<ContextBench> bench, ContextBench::create(file, executor, max_context));
    BASS_ASSIGN_OR_RETURN(SizedLimits limits, SizedLimits::measure(executor.n_threads));
    for (int round = 0; round < kContextRounds; ++round) {
      for (Cell& cell : cells) {
        BASS_RETURN_IF_ERROR(check_interrupted());
        cell.rounds.push_back(bench->run(cell.context_case));
        BASS_ASSIGN_OR_RETURN(const MachineLimits now, limits.of_now(cell.rounds.back().work.bytes));
        cell.limits.push_back(now);
      }
    }
    const std::string label = model_label(options_.engine.model_path, file.config.is_synthetic);
    Table table(columns(), options_.json, &console->out);
    for (Cell& cell : cells) {
      const ContextTiming& timing = middle_of(&cell.rounds, [](const ContextTiming& round) { return round.median_s; });
      table.add(row(cell.context_case, timing, median_of(cell.limits), label, bench->isa_name(), executor.n_threads));
    }
    if (!options_.json) {
      console->err.write(fmt::format("{}, {}, {} threads\n", label, bench->isa_name(), executor.n_threads));
    }
    return ok_status();
  }

  // Cases that the memory does not hold are told and left out.
  Result<std::vector<Cell>> make_cells(const ModelFile& file, Console* console, ExecutorOptions* executor) {
    BASS_ASSIGN_OR_RETURN(const std::vector<int> batches, parse_list("--batch", batch_, kMaxBenchBatch));
    BASS_ASSIGN_OR_RETURN(const std::vector<int> contexts, parse_list("--context", context_, kMaxBenchTokens));
    const int64_t page_bytes = cpu_page_bytes(file.config, options_.engine.kv);
    // The system promises more memory than there is and ends programs that take it.
    const int64_t n_available = std::max<int64_t>(0, available_memory_bytes() - file.weight_bytes);
    const int64_t n_wanted = options_.engine.kv_memory_mib.value_or(kDefaultMemoryMib) << 20;
    const int64_t max_pages = std::min(n_wanted, n_available) / page_bytes;
    const int max_context = *std::max_element(contexts.begin(), contexts.end());
    if (max_context >= file.config.context_len) {
      return invalid_argument(fmt::format("--context {}: the model was trained for {} tokens; give less", max_context,
                                          file.config.context_len));
    }
    std::vector<Cell> cells;
    int64_t n_pages = 0;
    for (const int context : contexts) {
      for (const int batch : batches) {
        const ContextCase context_case{batch, context, is_shared_};
        // The computed context is there beside the case's copies.
        const int64_t n_needed = ContextBench::n_pages(context_case) + max_context / kCpuPageLen + 1;
        if (n_needed > max_pages) {
          console->err.write(fmt::format("{} sequences of {} tokens are left out: they take {} MiB{}\n", batch, context,
                                         n_needed * page_bytes >> 20,
                                         n_needed * page_bytes > n_available ? " of memory" : " (--kv-memory)"));
          continue;
        }
        n_pages = std::max(n_pages, n_needed);
        cells.push_back({context_case, {}});
      }
    }
    if (cells.empty() && n_available < n_wanted) return resource_exhausted("no case fits into memory");
    if (cells.empty()) return invalid_argument("no case fits the KV cache; raise --kv-memory");
    executor->n_threads = threads_or_all(options_.engine.n_threads);
    executor->max_batch = *std::max_element(batches.begin(), batches.end());
    executor->attention = options_.engine.attention;
    executor->activations = options_.engine.activations;
    executor->kv = options_.engine.kv;
    executor->n_main_pages = static_cast<int>(n_pages);
    executor->context_len = max_context + kCpuPageLen;
    return cells;
  }

  static nlohmann::ordered_json row(const ContextCase& context_case, const ContextTiming& timing,
                                    const MachineLimits& machine, const std::string& label, const std::string& isa,
                                    int n_threads) {
    return {{"batch", context_case.batch},
            {"context", context_case.context_len},
            {"shared", context_case.is_shared},
            {"s", timing.median_s},
            {"tokens_per_s", context_case.batch / timing.median_s},
            {"bytes", timing.work.bytes},
            {"operations", operations_json(timing.work)},
            {"limit_s", limit_seconds(timing.work, machine)},
            {"limit_fraction", limit_fraction(timing.work, machine, timing.median_s)},
            {"machine", machine_json(isa, n_threads, machine)},
            {"model", label}};
  }

  static std::vector<Column> columns() {
    return {{"sequences", "batch", 9},
            {"context", "context", 8},
            {"ms/step", "s", 9, 3, 1e3},
            {"tokens/s", "tokens_per_s", 10, 1},
            {"MB", "bytes", 9, 1, 1e-6},
            {"limit ms", "limit_s", 9, 3, 1e3},
            {"of limit %", "limit_fraction", 10, 1, 100}};
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string batch_ = "1,8,32";
  std::string context_ = "256,1024,4096";
  bool is_shared_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_context() { return std::make_unique<BenchContextCommand>(); }

}  // namespace bass
