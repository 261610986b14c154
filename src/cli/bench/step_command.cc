// bass bench step: where the time of a decode step goes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/check.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/engine_bench.h"
#include "cli/engine_loading.h"
#include "executor/step_profile.h"

namespace bass {
namespace {

struct ProfiledRun {
  BenchRun run;
  StepProfile profile;
};

/// One part, or all parts together, a step.
nlohmann::ordered_json part_json(std::string_view name, const PartSums& sums, double n_steps, double share,
                                 const MachineLimits& limits) {
  const Work work = Work{}.add(sums.work, 1 / n_steps);
  const double seconds = sums.seconds / n_steps;
  nlohmann::ordered_json json{{"name", name},        {"s", seconds},
                              {"share", share},      {"waited_s", sums.waited_s / n_steps},
                              {"bytes", work.bytes}, {"operations", operations_json(work)},
                              {"limit_s", nullptr},  {"limit_fraction", nullptr}};
  if (const double limit_s = limit_seconds(work, limits); limit_s > 0) {
    json["limit_s"] = limit_s;
    json["limit_fraction"] = limit_fraction(work, limits, seconds);
  }
  return json;
}

/// Seconds of a draft model's pass, first and later of a step; null where there was none.
nlohmann::ordered_json draft_json(const DraftTimes& times) {
  nlohmann::ordered_json json{{"first_s", nullptr}, {"later_s", nullptr}};
  if (times.n_first > 0) json["first_s"] = times.first_s / static_cast<double>(times.n_first);
  if (times.n_later > 0) json["later_s"] = times.later_s / static_cast<double>(times.n_later);
  return json;
}

nlohmann::ordered_json step_json(const BenchCase& bench_case, const BenchRun& run, const StepProfile& profile,
                                 const nlohmann::ordered_json& machine, const MachineLimits& limits) {
  PartSums total;
  for (size_t i = 0; i < kStepParts; ++i) {
    const PartSums& part = profile.part(static_cast<StepPart>(i));
    total.seconds += part.seconds;
    total.waited_s += part.waited_s;
  }
  total.work = run.decode_work();  // without what sampling reads from caches
  const auto n_steps = static_cast<double>(profile.n_steps());
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (size_t i = 0; i < kStepParts && n_steps > 0; ++i) {
    const auto kind = static_cast<StepPart>(i);
    const PartSums& part = profile.part(kind);
    if (kind == StepPart::kDraft && part.seconds == 0) continue;  // there is no draft model
    parts.push_back(part_json(step_part_name(kind), part, n_steps, part.seconds / total.seconds, limits));
  }
  nlohmann::ordered_json step;
  if (n_steps > 0) step = part_json("step", total, n_steps, 1, limits);
  return {{"batch", bench_case.batch},
          {"prompt_tokens", bench_case.n_prompt_tokens},
          {"generate_tokens", bench_case.n_generated},
          {"mode", bench_case.is_speculative ? "speculative" : "regular"},
          {"n_steps", profile.n_steps()},
          {"step", std::move(step)},
          {"parts", std::move(parts)},
          {"draft_pass", draft_json(run.draft_times())},
          {"machine", machine}};
}

std::vector<Column> step_columns() {
  return {{"part", "name", -18},
          {"ms/step", "s", 9, 4, 1e3},
          {"share %", "share", 7, 1, 100},
          {"waiting ms", "waited_s", 10, 4, 1e3},
          {"MB", "bytes", 8, 2, 1e-6},
          {"int8 Mop", "int8_mop", 9, 2},
          {"int16 Mop", "int16_mop", 9, 2},
          {"f32 Mop", "f32_mop", 9, 2},
          {"limit ms", "limit_s", 9, 4, 1e3},
          {"of limit %", "limit_fraction", 10, 1, 100}};
}

/// For people.
std::string draft_text(const nlohmann::ordered_json& draft_pass) {
  if (draft_pass["first_s"].is_null()) return "";
  std::string text = fmt::format("a pass of the draft model: {:.4f} ms the first of a step",
                                 draft_pass["first_s"].get<double>() * 1e3);
  if (!draft_pass["later_s"].is_null()) {
    text += fmt::format(", {:.4f} ms each later one", draft_pass["later_s"].get<double>() * 1e3);
  }
  return text + "\n";
}

/// For people: a title, a row a part, and the sum.
std::string step_text(const nlohmann::ordered_json& step) {
  std::string text =
      fmt::format("{} sequence{}, {} prompt tokens, {} generated, {}: {} decode steps\n", step["batch"].get<int>(),
                  step["batch"] == 1 ? "" : "s", step["prompt_tokens"].get<int>(), step["generate_tokens"].get<int>(),
                  step["mode"].get<std::string>(), step["n_steps"].get<int64_t>());
  if (step["step"].is_null()) return text;
  text += table_header(step_columns());
  const auto add = [&](nlohmann::ordered_json row) {
    row["int8_mop"] = row["operations"]["int8_dot"].get<double>() * 1e-6;
    row["int16_mop"] = row["operations"]["int16_dot"].get<double>() * 1e-6;
    row["f32_mop"] = row["operations"]["f32_fma"].get<double>() * 1e-6;
    text += table_row(step_columns(), row);
  };
  for (const auto& part : step["parts"]) add(part);
  add(step["step"]);
  return text + draft_text(step["draft_pass"]) + "\n";
}

class BenchStepCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "step"; }
  [[nodiscard]] std::string_view summary() const override { return "where the time of a decode step goes"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench step -m smollm2 --batch 1,8,32\n"
           "  bass bench step -m smollm2 --batch 32 --temperature 0.8 --top-p 0.95 --json";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"draft", "drafter", "draft_length", "verify", "top_p", "top_k", "min_p"}, {.batch = "1,8,32"});
    app->add_option("--temperature", temperature_, "of sampling [0]")->type_name("T");
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.read());
    GenerateOptions& options = arguments_.options();
    if (!temperature_.empty()) {
      BASS_RETURN_IF_ERROR(set_option(*find_option("temperature"), std::array{temperature_}, &options));
    }
    StepProfile profile;
    options.engine.profile = &profile;
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options, console));
    const std::vector<BenchCase>& cases = arguments_.cases();
    const std::vector<BenchCase> rounds = arguments_.rounds();
    std::vector<std::vector<ProfiledRun>> runs(cases.size());
    const MeasuredCases measured = run_cases(
        engine.get(), options.request, rounds, [&](size_t) { profile.reset(); },
        [&](size_t i, const BenchRun& run) {
          runs[i % cases.size()].push_back({run, profile});
        });
    const std::string label = model_label(options.engine.model_path, engine->model_info().is_synthetic);
    const int n_threads = engine->options().n_threads;
    const nlohmann::ordered_json machine = machine_json(engine->isa_name(), n_threads, measured.limits);
    for (size_t i = 0; i < runs.size() && !runs[i].empty(); ++i) {
      const ProfiledRun& median = middle_of(&runs[i], [](const ProfiledRun& run) { return run.run.decode_s(); });
      nlohmann::ordered_json step = step_json(cases[i], median.run, median.profile, machine, measured.limits);
      step["model"] = label;
      console->out.write(options.json ? step.dump() + "\n" : step_text(step));
    }
    if (!options.json && measured.n_runs > 0) {
      console->err.write(label + ", " + machine_line(engine->isa_name(), n_threads, measured.limits));
    }
    return measured.status;
  }

  EngineBenchArguments arguments_;
  std::string temperature_;
};

}  // namespace

std::unique_ptr<Command> make_bench_step() { return std::make_unique<BenchStepCommand>(); }

}  // namespace bass
