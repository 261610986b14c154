// bass bench attention: the layouts of ragged attention against each other and against the limit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "cli/bench/attention_bench.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/engine_bench.h"
#include "cli/bench/gpu_attention_bench.h"
#include "cli/interrupt.h"
#include "cli/number_lists.h"
#include "engine/device_choice.h"

namespace bass {
namespace {

constexpr int kMaxHeads = 1024;

struct Layout {
  std::string name;
  AttentionKind kind;
};

/// All values of the option.
Result<std::vector<Layout>> all_layouts() {
  const Option& option = *find_option("attention");
  std::vector<Layout> layouts;
  for (std::string_view names = option.value_name; !names.empty();) {
    const size_t end = std::min(names.find('|'), names.size());
    const std::string name(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
    GenerateOptions options;
    BASS_RETURN_IF_ERROR(set_option(option, std::array{name}, &options));
    layouts.push_back({name, options.engine.attention});
  }
  return layouts;
}

class BenchAttentionCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "attention"; }
  [[nodiscard]] std::string_view summary() const override { return "the layouts of ragged attention compared"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench attention\n"
           "  bass bench attention --heads 32 --batch 8 --context 2048 --queries 5 --json\n"
           "The limit of a GPU is reading all keys and values once as fast as it copies memory.";
  }
  void add_options(CLI::App* app) override {
    const auto add = [&](const char* flag, const char* help, std::string* text) {
      app->add_option(flag, *text, fmt::format("{} [{}]", help, *text))->type_name("N,...");
    };
    add("--heads", "query heads", &heads_);
    add("--group", "query heads that share a head of keys and values", &group_);
    add("--head-dim", "numbers of a head, a multiple of 16", &head_dim_);
    add("--batch", "sequences at once", &batch_);
    add("--context", "mean of the sequences' lengths", &context_);
    add("--queries", "tokens of a sequence in a step: 1 decodes, more verify", &queries_);
    arguments_.add(app, {"threads", "kv_type", "device", "json"});
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  struct Grid {
    std::vector<int> heads, groups, head_dims, batches, contexts, queries;
  };

  Result<Grid> read_grid() {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    Grid grid;
    BASS_ASSIGN_OR_RETURN(grid.heads, parse_list("--heads", heads_, kMaxHeads));
    BASS_ASSIGN_OR_RETURN(grid.groups, parse_list("--group", group_, kMaxHeads));
    BASS_ASSIGN_OR_RETURN(grid.head_dims, parse_list("--head-dim", head_dim_, cpu::kMaxHeadDim));
    BASS_ASSIGN_OR_RETURN(grid.batches, parse_list("--batch", batch_, kMaxBenchBatch));
    BASS_ASSIGN_OR_RETURN(grid.contexts, parse_list("--context", context_, kMaxBenchTokens));
    BASS_ASSIGN_OR_RETURN(grid.queries, parse_list("--queries", queries_, kMaxBenchBatch));
    constexpr int kHeadDimStep = 16;
    for (const int head_dim : grid.head_dims) {
      if (head_dim % kHeadDimStep != 0) {
        return invalid_argument(fmt::format("--head-dim {}: must be a multiple of {}", head_dim, kHeadDimStep));
      }
    }
    for (const int n_heads : grid.heads) {
      for (const int group : grid.groups) {
        if (n_heads % group != 0) {
          return invalid_argument(fmt::format("--group {}: must divide --heads {}", group, n_heads));
        }
      }
    }
    return grid;
  }

  Status bench(Console* console) {
    BASS_ASSIGN_OR_RETURN(const Grid grid, read_grid());
    BASS_ASSIGN_OR_RETURN(layouts_, all_layouts());
    BASS_ASSIGN_OR_RETURN(machine_, open_machine(console));
    Table table({{"heads", "n_heads", 5},
                 {"kv", "n_kv_heads", 4},
                 {"dim", "head_dim", 4},
                 {"lengths", "lengths", -11},
                 {"batch", "batch", 5},
                 {"context", "context", 7},
                 {"queries", "queries", 7},
                 {"layout", "attention", -13},
                 {"us", "s", 9, 1, 1e6},
                 {"limit us", "limit_s", 9, 1, 1e6},
                 {"limit %", "limit_fraction", 7, 1, 100}},
                options_.json, &console->out);
    for (const int n_heads : grid.heads) {
      for (const int group : grid.groups) {
        for (const int head_dim : grid.head_dims) {
          for (const int context : grid.contexts) {
            const AttentionShape shape{n_heads, n_heads / group, head_dim, options_.engine.kv};
            BASS_RETURN_IF_ERROR(bench_shape(shape, context, grid, &table));
          }
        }
      }
    }
    return ok_status();
  }

  Result<std::unique_ptr<AttentionMachine>> open_machine(Console* console) const {
    BASS_ASSIGN_OR_RETURN(OpenedDevice opened, open_named_device(options_.engine.device));
    if (!opened.note.empty()) console->err.write(opened.note + "\n");
    if (opened.gpu != nullptr) return make_gpu_attention_machine(std::move(opened.gpu));
    const int n_threads = options_.engine.n_threads;
    return make_cpu_attention_machine(threads_or_all(n_threads));
  }

  Status bench_shape(const AttentionShape& shape, int context, const Grid& grid, Table* table) {
    AttentionRoom room;
    room.n_sequences = *std::max_element(grid.batches.begin(), grid.batches.end());
    room.n_queries = *std::max_element(grid.queries.begin(), grid.queries.end());
    for (const LengthKind kind : kLengthKinds) {
      for (const int batch : grid.batches) {
        const std::vector<int> lens = make_lengths(kind, batch, context, room.n_queries);
        room.context_len = std::max(room.context_len, *std::max_element(lens.begin(), lens.end()));
        room.n_cached_tokens = std::max(room.n_cached_tokens, std::accumulate(lens.begin(), lens.end(), int64_t{0}));
      }
    }
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<AttentionBench> bench, machine_->make_bench(shape, room));
    for (const LengthKind kind : kLengthKinds) {
      for (const int batch : grid.batches) {
        for (const int n_queries : grid.queries) {
          BASS_RETURN_IF_ERROR(bench_batch(bench.get(), shape, kind, {batch, context, n_queries}, table));
        }
      }
    }
    return ok_status();
  }

  struct Batch {
    int n_sequences;
    int context;
    int n_queries;
  };

  Status bench_batch(AttentionBench* bench, const AttentionShape& shape, LengthKind kind, const Batch& batch,
                     Table* table) const {
    BASS_RETURN_IF_ERROR(check_interrupted());
    std::vector<AttentionKind> kinds;
    for (const Layout& layout : layouts_) kinds.push_back(layout.kind);
    const std::vector<int> lens = make_lengths(kind, batch.n_sequences, batch.context, batch.n_queries);
    BASS_ASSIGN_OR_RETURN(const std::vector<AttentionTiming> timings, bench->measure(kinds, lens, batch.n_queries));
    for (size_t i = 0; i < layouts_.size(); ++i) {
      const AttentionTiming& timing = timings[i];
      BASS_ASSIGN_OR_RETURN(const MachineLimits limits, machine_->limits_of(timing.work));
      nlohmann::ordered_json row{{"attention", layouts_[i].name},
                                 {"n_heads", shape.n_heads},
                                 {"n_kv_heads", shape.n_kv_heads},
                                 {"head_dim", shape.head_dim},
                                 {"kv_type", kv_type_name(shape.kv)},
                                 {"lengths", length_kind_name(kind)},
                                 {"batch", batch.n_sequences},
                                 {"context", batch.context},
                                 {"queries", batch.n_queries},
                                 {"s", timing.median_s},
                                 {"bytes", timing.work.bytes},
                                 {"operations", operations_json(timing.work)},
                                 {"limit_s", limit_seconds(timing.work, limits)},
                                 {"limit_fraction", limit_fraction(timing.work, limits, timing.median_s)},
                                 {"bandwidth_gb_s", limits.bandwidth_gb_s}};
      row.update(machine_->facts());
      table->add(row);
    }
    return ok_status();
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::vector<Layout> layouts_;
  std::unique_ptr<AttentionMachine> machine_;
  std::string heads_ = "8,16,32,64";
  std::string group_ = "4";
  std::string head_dim_ = "64";
  std::string batch_ = "1,2,4,8,16,32";
  std::string context_ = "512";
  std::string queries_ = "1";
};

}  // namespace

std::unique_ptr<Command> make_bench_attention() { return std::make_unique<BenchAttentionCommand>(); }

}  // namespace bass
