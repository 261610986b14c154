#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/interrupt.h"
#include "cli/terminal_text.h"
#include "engine/machine.h"

namespace bass {
namespace {

// What the prompts are made of. Plain text and code, so that drafters meet what they are for.
constexpr std::string_view kText =
    "The river rose in the night, and by morning the bridge at the lower mill could not be crossed. Two farmers and a "
    "teacher stood on the near bank and talked about the time it would take to walk round by the old quarry road. "
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n    return total / "
    "len(values)\n\n"
    "A battery stores energy by moving ions from one electrode to the other; when it is charged they are moved back. "
    "def longest_word(text):\n    words = text.split()\n    best = ''\n    for word in words:\n        if len(word) > "
    "len(best):\n"
    "            best = word\n    return best\n\n"
    "She kept the letters in a tin box under the stairs, tied with string, the oldest at the bottom. In the spring she "
    "read them again from the beginning, one each evening, and wrote the dates in the margin of her calendar. ";

struct BenchCase {
  int batch = 1;
  int n_prompt_tokens = 64;
  int n_generated = 64;
  bool is_speculative = false;
};

/// What the engine did between two readings of its sums.
struct BenchRun {
  EngineStats begin;
  EngineStats end;
};

/// What the machine can do at best.
struct MachinePeaks {
  double peak_tops = 0;
  double bandwidth_gb_s = 0;  ///< of reading the main model's weights again and again
};

/// The higher of each of two measurements: one that other programs disturbed is too low.
Status raise_peaks(const Engine& engine, MachinePeaks* peaks) {
  const int n_threads = engine.options().n_threads;
  BASS_ASSIGN_OR_RETURN(const double peak_tops, measure_peak_tops(n_threads));
  BASS_ASSIGN_OR_RETURN(const double bandwidth, measure_bandwidth_gb_s(n_threads, engine.model_info().step_bytes));
  peaks->peak_tops = std::max(peaks->peak_tops, peak_tops);
  peaks->bandwidth_gb_s = std::max(peaks->bandwidth_gb_s, bandwidth);
  return ok_status();
}

/// The longest time of the two that the decode steps need at the machine's peaks, over the time that they took.
double limit_fraction(const BenchCase& bench_case, const BenchRun& run, const Engine& engine,
                      const MachinePeaks& peaks) {
  const double decode_s = run.end.decode_s - run.begin.decode_s;
  if (decode_s <= 0) return 0;
  const ModelInfo info = engine.model_info();
  const auto n_steps = static_cast<double>(run.end.decode_steps - run.begin.decode_steps);
  const double mean_context = bench_case.n_prompt_tokens + 0.5 * bench_case.n_generated;
  const double kv_bytes = bench_case.batch * mean_context * static_cast<double>(info.kv_bytes_per_token);
  double bytes = n_steps * (static_cast<double>(info.step_bytes) + kv_bytes);
  if (const std::optional<ModelInfo> draft = engine.draft_info(); draft.has_value() && bench_case.is_speculative) {
    // a draft step serves the whole batch
    const auto n_drafted = static_cast<double>(run.end.speculation.drafted - run.begin.speculation.drafted);
    bytes += n_drafted / bench_case.batch * static_cast<double>(draft->step_bytes);
  }
  const double read_s = bytes / (peaks.bandwidth_gb_s * 1e9);
  const double compute_s = (run.end.decode_operations - run.begin.decode_operations) / (peaks.peak_tops * 1e12);
  return std::max(read_s, compute_s) / decode_s;
}

class BenchRunner {
 public:
  BenchRunner(Engine* engine, SpeculationOptions speculation) : engine_(engine), speculation_(std::move(speculation)) {}

  Result<BenchRun> run(const BenchCase& bench_case) {
    BASS_ASSIGN_OR_RETURN(std::vector<Request> requests, make_requests(bench_case));
    const auto events = std::make_shared<EventQueue>();
    BenchRun run;
    run.begin = engine_->stats();
    std::vector<RequestId> ids;
    for (Request& request : requests) {
      const Result<RequestId> id = engine_->submit(std::move(request), events);
      if (!id.ok()) return id.status();
      ids.push_back(id.value());
    }
    BASS_RETURN_IF_ERROR(wait(ids, events.get()));
    run.end = engine_->stats();
    return run;
  }

 private:
  /// Distinct prompts: each starts elsewhere in the text.
  Result<std::vector<Request>> make_requests(const BenchCase& bench_case) const {
    BASS_ASSIGN_OR_RETURN(const std::vector<TokenId> text, engine_->tokenize(kText, false, false));
    constexpr size_t kStride = 7;
    std::vector<Request> requests(static_cast<size_t>(bench_case.batch));
    for (size_t i = 0; i < requests.size(); ++i) {
      Request& request = requests[i];
      for (int k = 0; k < bench_case.n_prompt_tokens; ++k) {
        request.prompt_tokens.push_back(text[(i * kStride + static_cast<size_t>(k)) % text.size()]);
      }
      request.max_tokens = bench_case.n_generated;
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      request.speculation = speculation_;
      if (!bench_case.is_speculative) request.speculation.drafter = DrafterChoice::kOff;
    }
    return requests;
  }

  Status wait(const std::vector<RequestId>& ids, EventQueue* events) {
    constexpr std::chrono::duration<double> kPollInterval{0.1};
    size_t n_done = 0;
    Status status;
    while (n_done < ids.size()) {
      Event event;
      if (events->wait(&event, kPollInterval)) {
        n_done += event.kind == Event::Kind::kDone ? 1 : 0;
        if (event.kind == Event::Kind::kFinished && !event.error.ok()) status = event.error;
      }
      if (is_interrupted() && status.ok()) {
        status = Status(StatusCode::kCancelled, "interrupted");
        for (const RequestId id : ids) engine_->cancel(id);
      }
    }
    return status;
  }

  Engine* engine_;
  SpeculationOptions speculation_;
};

nlohmann::ordered_json row_json(const BenchCase& bench_case, const BenchRun& run, const MachinePeaks& peaks,
                                double fraction) {
  const int pp = bench_case.n_prompt_tokens, tg = bench_case.n_generated, batch = bench_case.batch;
  const double prefill_s = run.end.prefill_s - run.begin.prefill_s;
  const double decode_s = run.end.decode_s - run.begin.decode_s;
  const auto decode_tokens = static_cast<double>(run.end.decode_tokens - run.begin.decode_tokens);
  const int64_t n_kv = int64_t{batch} * (pp + tg);
  const auto rate = [](double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; };
  return {{"PP", pp},
          {"TG", tg},
          {"B", batch},
          {"N_KV", n_kv},
          {"T_PP", prefill_s},
          {"S_PP", rate(static_cast<double>(batch) * pp, prefill_s)},
          {"T_TG", decode_s},
          {"S_TG", rate(decode_tokens, decode_s)},
          {"T", prefill_s + decode_s},
          {"S", rate(static_cast<double>(n_kv), prefill_s + decode_s)},
          {"mode", bench_case.is_speculative ? "speculative" : "regular"},
          {"bandwidth_gb_s", peaks.bandwidth_gb_s},
          {"peak_tops", peaks.peak_tops},
          {"limit_fraction", fraction}};
}

constexpr std::string_view kHeader =
    "   PP     TG    B    N_KV   T_PP s  S_PP t/s   T_TG s  S_TG t/s      T s     S t/s  mode         limit\n";

std::string row_text(const nlohmann::ordered_json& row) {
  const auto number = [&](const char* key) { return row[key].get<double>(); };
  return fmt::format("{:5} {:6} {:4} {:7} {:8.3f} {:9.2f} {:8.3f} {:9.2f} {:8.3f} {:9.2f}  {:<11} {:5.1f} %\n",
                     row["PP"].get<int>(), row["TG"].get<int>(), row["B"].get<int>(), row["N_KV"].get<int64_t>(),
                     number("T_PP"), number("S_PP"), number("T_TG"), number("S_TG"), number("T"), number("S"),
                     row["mode"].get<std::string>(), 100 * number("limit_fraction"));
}

/// "1,2,4": whole numbers from 1 to max.
Result<std::vector<int>> parse_list(std::string_view flag, const std::string& text, int max) {
  std::vector<int> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int value = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (error != std::errc{} || stop != text.data() + end || value < 1 || value > max) {
      return invalid_argument(fmt::format("{} {}: must be whole numbers from 1 to {}, like 1,2,4", flag, text, max));
    }
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

Result<int> parse_count(std::string_view flag, const std::string& text) {
  constexpr int kMaxTokens = 1 << 20;
  const Result<std::vector<int>> values = parse_list(flag, text, kMaxTokens);
  if (values.ok() && values.value().size() == 1) return values.value().front();
  return invalid_argument(fmt::format("{} {}: must be a whole number from 1 to {}", flag, text, kMaxTokens));
}

class BenchCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "bench"; }
  [[nodiscard]] std::string_view summary() const override {
    return "measure decoding, and how near it is to the limit";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench decode -m smollm2 --batch 1,2,4,8\n"
           "  bass bench decode -m main.gguf -d draft.gguf --batch 8 --prompt-tokens 64 --generate-tokens 64 --json";
  }
  void add_options(CLI::App* app) override {
    app->add_option("WHAT", what_, "decode");
    arguments_.add(app, {"model", "draft", "drafter", "draft_length", "verify", "threads", "context", "kv_memory",
                         "max_step_tokens", "attention", "activations", "device", "json"});
    app->add_option("--batch", batch_, "batch sizes [1,2,4,8]")->type_name("N,...");
    app->add_option("--prompt-tokens", n_prompt_tokens_, "tokens of a prompt [64]")->type_name("N");
    app->add_option("--generate-tokens", n_generated_, "tokens generated a sequence [64]")->type_name("N");
  }
  int run(Console* console) override {
    const Status status = bench(console);
    return status.ok() ? finish(console) : fail(console, status);
  }

 private:
  Result<std::vector<BenchCase>> read_cases() {
    if (what_ != "decode") return invalid_argument(fmt::format("bench '{}': must be decode", what_));
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    constexpr int kMaxBatch = 4096;
    BASS_ASSIGN_OR_RETURN(const std::vector<int> batches, parse_list("--batch", batch_, kMaxBatch));
    BASS_ASSIGN_OR_RETURN(const int n_prompt_tokens, parse_count("--prompt-tokens", n_prompt_tokens_));
    BASS_ASSIGN_OR_RETURN(const int n_generated, parse_count("--generate-tokens", n_generated_));
    options_.engine.max_batch = *std::max_element(batches.begin(), batches.end());
    if (!options_.engine.context_len.has_value()) options_.engine.context_len = n_prompt_tokens + n_generated;
    const DrafterChoice drafter = options_.request.speculation.drafter;
    const bool has_draft = !options_.engine.draft_path.empty();
    const bool is_speculative = drafter != DrafterChoice::kOff && (has_draft || drafter != DrafterChoice::kAuto);
    std::vector<BenchCase> cases;
    for (const int batch : batches) {
      cases.push_back({batch, n_prompt_tokens, n_generated, false});
      if (is_speculative) cases.push_back({batch, n_prompt_tokens, n_generated, true});
    }
    return cases;
  }

  Status bench(Console* console) {
    BASS_ASSIGN_OR_RETURN(const std::vector<BenchCase> cases, read_cases());
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options_.engine));
    BenchRunner runner(engine.get(), options_.request.speculation);
    BASS_RETURN_IF_ERROR(runner.run(cases.front()).status());  // not counted: pages of the weights, caches, threads
    MachinePeaks peaks;
    BASS_RETURN_IF_ERROR(raise_peaks(*engine, &peaks));
    std::vector<BenchRun> runs;
    Status status;
    for (size_t i = 0; i < cases.size() && status.ok(); ++i) {
      Result<BenchRun> run = runner.run(cases[i]);
      status = run.status();
      if (run.ok()) runs.push_back(run.value());
    }
    if (status.ok()) status = raise_peaks(*engine, &peaks);
    print(cases, runs, *engine, peaks, console);  // what there is, also when the rest was interrupted
    return status;
  }

  /// The first cases, as many as there are runs.
  void print(const std::vector<BenchCase>& cases, const std::vector<BenchRun>& runs, const Engine& engine,
             const MachinePeaks& peaks, Console* console) const {
    if (runs.empty()) return;
    if (!options_.json) console->out.write(kHeader);
    for (size_t i = 0; i < runs.size(); ++i) {
      auto row = row_json(cases[i], runs[i], peaks, limit_fraction(cases[i], runs[i], engine, peaks));
      row["model"] = model_label(options_.engine.model_path, engine.model_info());
      console->out.write(options_.json ? row.dump() + "\n" : row_text(row));
    }
    if (options_.json) return;
    console->err.write(fmt::format("{}; {}, {} threads: {:.1f} GB/s, {:.2f} TOPS\n",
                                   for_terminal(model_label(options_.engine.model_path, engine.model_info())),
                                   engine.isa_name(), engine.options().n_threads, peaks.bandwidth_gb_s,
                                   peaks.peak_tops));
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string what_;
  std::string batch_ = "1,2,4,8";
  std::string n_prompt_tokens_ = "64";
  std::string n_generated_ = "64";
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace bass
