// bass bench paper: the comparison of the BASS paper (arXiv 2404.15778, tables 1 to 3): regular decoding and
// speculation, by layout of attention, draft length and batch, with a scripted acceptance.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/engine_bench.h"
#include "cli/bench/policy_list.h"
#include "cli/bench/table.h"
#include "cli/bench/workload.h"
#include "cli/engine_loading.h"
#include "cli/number_lists.h"
#include "cli/validators.h"
#include "speculation/draft_length.h"

namespace bass {
namespace {

constexpr std::string_view kRegular = "off";
constexpr uint64_t kPaperSeed = 1;  // of the first sequence: acceptance is the same in every run
constexpr std::string_view kPaperLine =
    "the paper (A100; 7.8B + 310M, int8, 8 sequences, bass): 5.8 ms a token, 2.15 x regular decoding, at most 15.8 % "
    "utilised\n";

/// A line of the table, and its rounds.
struct Cell {
  int batch = 1;
  std::string attention;
  std::string draft_length;
  std::vector<BenchRun> rounds;

  [[nodiscard]] bool is_regular() const { return draft_length == kRegular; }
};

/// The round of the median speed.
const BenchRun& median(Cell* cell) { return middle_of(&cell->rounds, std::mem_fn(&BenchRun::tokens_per_s)); }

Status set_layout(const std::string& name, GenerateOptions* options) {
  const Status status = set_option(*find_option("attention"), std::span(&name, 1), options);
  return status.ok() ? status : Status(status.code(), fmt::format("--layouts: {}", status.message()));
}

std::vector<Column> paper_columns() {
  return {{"B", "batch", 4},
          {"attention", "attention", -14},
          {"draft length", "draft_length", -14},
          {"first ms", "first_ms", 9, 2},
          {"last ms", "last_ms", 9, 2},
          {"all ms", "all_ms", 9, 2},
          {"tokens/s", "tokens_per_s", 10, 1},
          {"/regular", "regular_ratio", 9, 2},
          {"tokens/step", "tokens_per_step", 12, 2},
          {"accepted %", "acceptance", 11, 1, 100},
          {"utilised %", "utilisation", 11, 1, 100}};
}

class BenchPaperCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "paper"; }
  [[nodiscard]] std::string_view summary() const override {
    return "the BASS paper's comparison, with a scripted acceptance";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass synth --config paper-7.8b --type q8_0 -o main.gguf && bass synth --config paper-310m -o draft.gguf\n"
           "  bass bench paper -m main.gguf -d draft.gguf --device cuda --acceptance 0.8\n"
           "  bass bench paper -m smollm2 --batch 1,8 --draft-lengths off,fixed:2,bass --acceptance 0.7\n"
           "Drafted tokens are accepted with --acceptance, whatever the models say: the texts mean nothing, the times\n"
           "are those of real steps. ms: of a token, from when all sequences have begun; of the sequence that ends "
           "first,\n"
           "of the last, of all on average. /regular: over the fastest regular decoding of the same batch.";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model", "draft", "quantize", "temperature", "top_p", "top_k", "threads", "context",
                         "kv_memory", "max_step_tokens", "activations", "kv_type", "device", "json"});
    arguments_.say_default("temperature", "0");
    arguments_.say_default("context", "a sequence's tokens");
    const auto add = [&](const char* flag, auto& value, const std::string& help, const char* type_name) {
      return app->add_option(flag, value, help)->type_name(type_name);
    };
    add("--acceptance", acceptance_, fmt::format("chance of a drafted token to be accepted [{}]", acceptance_), "P")
        ->check(number_from(0, 1));
    add("--batch", batch_, fmt::format("sequences at once [{}]", batch_), "N,...");
    add("--layouts", layouts_, fmt::format("of attention, as --attention names them [{}]", layouts_), "NAME,...");
    add("--draft-lengths", policy_list_, fmt::format("what is compared; off is regular decoding [{}]", policy_list_),
        "POLICY,...");
    add("--prompt-tokens", n_prompt_tokens_, fmt::format("tokens of a prompt [{}]", n_prompt_tokens_), "N")
        ->check(whole_number(1, kMaxBenchTokens));
    add("--generate-tokens", n_generated_, fmt::format("tokens generated a sequence [{}]", n_generated_), "N")
        ->check(whole_number(2, kMaxBenchTokens));
    add("--rounds", n_rounds_, fmt::format("of all cases in turn; their medians are printed [{}]", n_rounds_), "N")
        ->check(whole_number(1, 1 << 20));
    add("--peak-tops", peak_tops_, "10^12 multiplications and additions a second that the device can do [none]", "X")
        ->check(positive_number());
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    options_.request.sampling.temperature = 0;
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    BASS_RETURN_IF_ERROR(prepare());
    std::vector<Cell> cells;
    Status status = run_layouts(console, &cells);
    std::erase_if(cells, [](const Cell& cell) { return cell.rounds.empty(); });
    if (!cells.empty()) print(&cells, console);  // what there is, whatever happened then
    return status.ok() ? left_out_ : status;
  }

  Status run_layouts(Console* console, std::vector<Cell>* cells) {
    for (const std::string& layout : split_policies(layouts_)) {
      BASS_RETURN_IF_ERROR(set_layout(layout, &options_));
      options_.engine.prefix_cache_mib = 0;
      BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options_, console));
      label_ = model_label(options_.engine.model_path, engine->model_info().is_synthetic);
      device_ = engine->options().device;
      BASS_RETURN_IF_ERROR(run_layout(engine.get(), layout, cells));
    }
    return ok_status();
  }

  Status prepare() {
    BASS_ASSIGN_OR_RETURN(batches_, parse_list("--batch", batch_, kMaxBenchBatch));
    options_.engine.max_batch = *std::max_element(batches_.begin(), batches_.end());
    const int n_tokens = n_prompt_tokens_ + n_generated_;
    if (options_.engine.context_len.value_or(n_tokens) < n_tokens) {
      return invalid_argument(fmt::format("--context {}: a sequence has {} prompt tokens and {} generated ones",
                                          *options_.engine.context_len, n_prompt_tokens_, n_generated_));
    }
    options_.engine.context_len = options_.engine.context_len.value_or(n_tokens);
    options_.engine.scripted_acceptance = static_cast<float>(acceptance_);
    options_.engine.gate = &start_;
    options_.request.seed = kPaperSeed;
    options_.request.speculation.drafter = DrafterChoice::kModel;
    options_.request.speculation.verify = VerifyRule::kRejection;  // the paper's
    BASS_ASSIGN_OR_RETURN(policies_, parse_policy_list("--draft-lengths", policy_list_));
    for (const std::string& layout : split_policies(layouts_)) BASS_RETURN_IF_ERROR(set_layout(layout, &options_));
    return ok_status();
  }

  Status run_layout(Engine* engine, const std::string& layout, std::vector<Cell>* cells) {
    const size_t first = cells->size();
    for (const int batch : batches_) {
      for (const std::string& policy : policies_) cells->push_back({batch, layout, policy, {}});
    }
    // The round in front of the others counts for nothing: weights and caches are touched for the first time, and room
    // is made for rows as they come.
    for (int round = -1; round < n_rounds_; ++round) {
      for (size_t i = first; i < cells->size(); ++i) {
        Result<BenchRun> run = run_cell(engine, (*cells)[i]);
        if (run.status().code() == StatusCode::kResourceExhausted) {  // of this case; the others have their room
          if (left_out_.ok()) left_out_ = run.status();
          cells->erase(cells->begin() + static_cast<ptrdiff_t>(i--));
          continue;
        }
        BASS_RETURN_IF_ERROR(run.status());
        if (round >= 0) (*cells)[i].rounds.push_back(std::move(run).value());
      }
    }
    return ok_status();
  }

  Result<BenchRun> run_cell(Engine* engine, const Cell& cell) {
    Request prototype = options_.request;
    prototype.speculation.draft_length = cell.draft_length;
    BASS_ASSIGN_OR_RETURN(
        BenchRun run,
        BenchRunner(engine, prototype, &start_).run({cell.batch, n_prompt_tokens_, n_generated_, !cell.is_regular()}));
    if (!run.seconds_per_token.empty()) return run;
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("--batch {}, {}: the first sequences had ended when the last began; raise "
                              "--max-step-tokens, --kv-memory or --generate-tokens",
                              cell.batch, cell.draft_length));
  }

  void print(std::vector<Cell>* cells, Console* console) const {
    Table table(paper_columns(), options_.json, &console->out);
    for (const int batch : batches_) {
      double regular = 0;
      for (Cell& cell : *cells) {
        if (cell.batch == batch && cell.is_regular()) regular = std::max(regular, median(&cell).tokens_per_s());
      }
      for (Cell& cell : *cells) {
        if (cell.batch == batch) table.add(row_of(&cell, regular));
      }
    }
    console->err.write(fmt::format("{} on {}, scripted acceptance {:g}, {} prompt tokens, {} generated\n{}", label_,
                                   device_, acceptance_, n_prompt_tokens_, n_generated_, kPaperLine));
  }

  nlohmann::ordered_json row_of(Cell* cell, double regular) const {
    const BenchRun& run = median(cell);
    const std::vector<double>& seconds = run.seconds_per_token;
    const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    const int64_t drafted = run.end.speculation.drafted - run.begin.speculation.drafted;
    const int64_t accepted = run.end.speculation.accepted - run.begin.speculation.accepted;
    const double speed = run.tokens_per_s();
    const Work work = run.decode_work();
    const double operations = std::accumulate(work.operations.begin(), work.operations.end(), 0.0);
    nlohmann::ordered_json row{{"batch", cell->batch},
                               {"attention", cell->attention},
                               {"draft_length", cell->draft_length},
                               {"first_ms", 1e3 * seconds.front()},
                               {"last_ms", 1e3 * seconds.back()},
                               {"all_ms", 1e3 * sum / static_cast<double>(seconds.size())},
                               {"tokens_per_s", speed},
                               {"tokens_per_step", 1 + per(accepted, run.n_sequence_steps())},
                               {"scripted_acceptance", acceptance_},
                               {"prompt_tokens", n_prompt_tokens_},
                               {"generated_tokens", n_generated_},
                               {"model", label_},
                               {"draft", options_.engine.draft_path},
                               {"activations", option_value(*find_option("activations"), options_)},
                               {"device", device_}};
    if (regular > 0) row["regular_ratio"] = speed / regular;
    if (drafted > 0) row["acceptance"] = per(accepted, drafted);
    if (peak_tops_) row["utilisation"] = operations / (run.decode_s() * *peak_tops_ * 1e12);
    return row;
  }

  static double per(int64_t n, int64_t m) { return m > 0 ? static_cast<double>(n) / static_cast<double>(m) : 0; }

  TableArguments arguments_;
  StartGate start_;
  GenerateOptions options_;
  double acceptance_ = 0.8;
  std::string batch_ = "1,2,4,8,16,32";
  std::string layouts_ = "pad,split,fused";
  std::string policy_list_ = "off,fixed:4,bass";
  std::vector<std::string> policies_;
  int n_prompt_tokens_ = 64;
  int n_generated_ = 128;
  int n_rounds_ = 3;
  std::optional<double> peak_tops_;
  std::vector<int> batches_;
  std::string label_, device_;
  Status left_out_;  // why the first case that is not in the table is not
};

}  // namespace

std::unique_ptr<Command> make_bench_paper() { return std::make_unique<BenchPaperCommand>(); }

}  // namespace bass
