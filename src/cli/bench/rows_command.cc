// bass bench rows: drawing from and verifying rows of logits on a GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/check.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/engine_bench.h"
#include "cli/bench/gpu_rows_bench.h"
#include "cli/interrupt.h"
#include "cli/number_lists.h"
#include "engine/device_choice.h"
#include "kernels/cuda/sampling/sampling_tasks.h"

namespace bass {
namespace {

constexpr int kMaxTokens = 1 << 19;

struct NamedParams {
  const char* name;
  SamplingParams params;
};
const NamedParams kCases[] = {
    {"greedy", {.temperature = 0}},
    {"match", {.temperature = 0.8F, .rule = VerifyRule::kMatch}},
    {"match, top-p", {.temperature = 0.8F, .top_p = 0.9F, .rule = VerifyRule::kMatch}},
    {"rejection", {.temperature = 0.8F, .rule = VerifyRule::kRejection}},
    {"rejection, top-p", {.temperature = 0.8F, .top_p = 0.9F, .rule = VerifyRule::kRejection}},
    {"block", {.temperature = 0.8F, .rule = VerifyRule::kBlock}},
};

class BenchRowsCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "rows"; }
  [[nodiscard]] std::string_view summary() const override {
    return "drawing from and verifying rows of logits on a GPU, by rule";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench rows --device cuda\n"
           "  bass bench rows --device cuda --vocabulary 49152 --batch 8 --drafts 0,7 --json";
  }
  void add_options(CLI::App* app) override {
    const auto add = [&](const char* flag, const char* help, std::string* text) {
      app->add_option(flag, *text, fmt::format("{} [{}]", help, *text))->type_name("N,...");
    };
    add("--vocabulary", "tokens of a row", &vocabulary_);
    add("--batch", "sequences at once", &batch_);
    add("--drafts", "drafted tokens of a sequence; a row more is verified", &drafts_);
    arguments_.add(app, {"device", "json"});
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_ASSIGN_OR_RETURN(const std::vector<int> vocabularies, parse_list("--vocabulary", vocabulary_, kMaxTokens));
    BASS_ASSIGN_OR_RETURN(const std::vector<int> batches, parse_list("--batch", batch_, kMaxBenchBatch));
    BASS_ASSIGN_OR_RETURN(const std::vector<int> drafts, parse_list("--drafts", drafts_, cuda::kMaxRoundDrafts, 0));
    BASS_ASSIGN_OR_RETURN(const OpenedDevice opened, open_named_device(options_.engine.device));
    if (opened.gpu == nullptr) return invalid_argument("bench rows is for a GPU; use `bass bench ops` on a CPU");
    Table table({{"rule", "rule", -16},
                 {"tokens", "n_tokens", 6},
                 {"batch", "batch", 5},
                 {"drafts", "n_drafts", 6},
                 {"draft us", "draft_s", 9, 1, 1e6},
                 {"verify us", "verify_s", 9, 1, 1e6},
                 {"judge us", "judge_s", 9, 1, 1e6}},
                options_.json, &console->out);
    for (const int n_tokens : vocabularies) {
      for (const int batch : batches) {
        for (const int n_drafts : drafts) {
          BASS_RETURN_IF_ERROR(bench_shape(opened.gpu.get(), {n_tokens, batch, n_drafts}, &table));
        }
      }
    }
    return ok_status();
  }

  static Status bench_shape(cuda::Device* device, const RowsShape& shape, Table* table) {
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<GpuRowsBench> bench, make_gpu_rows_bench(device, shape));
    for (const NamedParams& named : kCases) {
      BASS_RETURN_IF_ERROR(check_interrupted());
      BASS_ASSIGN_OR_RETURN(const RowsTiming timing, bench->measure(named.params));
      table->add({{"rule", named.name},
                  {"n_tokens", shape.n_tokens},
                  {"batch", shape.n_sequences},
                  {"n_drafts", shape.n_drafted},
                  {"draft_s", timing.draft_s},
                  {"verify_s", timing.verify_s},
                  {"judge_s", timing.judge_s},
                  {"device", device->info().name}});
    }
    return ok_status();
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string vocabulary_ = "49152";
  std::string batch_ = "8";
  std::string drafts_ = "0,7";
};

}  // namespace

std::unique_ptr<Command> make_bench_rows() { return std::make_unique<BenchRowsCommand>(); }

}  // namespace bass
