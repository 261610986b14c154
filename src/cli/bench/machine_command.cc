// bass bench machine: what this processor can do at best.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/check.h"
#include "base/thread_team.h"
#include "cli/bench/bench_command.h"
#include "cli/bench/ceiling.h"
#include "cli/bench/engine_bench.h"
#include "cli/interrupt.h"
#include "cli/number_lists.h"
#include "cli/validators.h"

namespace bass {
namespace {

constexpr int kCeilingRows[] = {12, 32};
constexpr int kMaxThreads = 1024;
constexpr int kMaxMib = 1024;

class BenchMachineCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "machine"; }
  [[nodiscard]] std::string_view summary() const override {
    return "bandwidth, peaks of the instruction set, ceilings of the weight formats";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass bench machine\n"
           "  BASS_FORCE_ISA=avx2 bass bench machine --threads 1,2,4 --json";
  }
  void add_options(CLI::App* app) override {
    app->add_option("-t,--threads", threads_, "numbers of threads [1 and all]")->type_name("N,...");
    app->add_option("--memory", memory_mib_, fmt::format("memory that is read again and again [{}]", memory_mib_))
        ->type_name("MIB")
        ->check(whole_number(1, kMaxMib));
    app->add_flag("--json", is_json_, "one JSON object a line");
  }
  int run(Console* console) override { return finish(console, bench(console)); }

 private:
  Status bench(Console* console) {
    const std::string all = fmt::format("{}", available_threads());
    const std::string threads = !threads_.empty() ? threads_ : all == "1" ? all : "1," + all;
    BASS_ASSIGN_OR_RETURN(const std::vector<int> thread_counts, parse_list("--threads", threads, kMaxThreads));
    BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
    if (!is_json_) console->out.write(processor_name() + "\n");
    for (const int n_threads : thread_counts) {
      BASS_ASSIGN_OR_RETURN(const MachineLimits limits, measure_limits(n_threads, int64_t{memory_mib_} << 20));
      nlohmann::ordered_json row = machine_json(kernels->name, n_threads, limits);
      row["processor"] = processor_name();
      row["memory_mib"] = memory_mib_;
      row["ceilings"] = ceilings(*kernels, n_threads, limits);
      BASS_RETURN_IF_ERROR(check_interrupted());
      console->out.write(is_json_ ? row.dump() + "\n" : text(row, limits));
    }
    return ok_status();
  }

  static nlohmann::ordered_json ceilings(const cpu::Kernels& kernels, int n_threads, const MachineLimits& limits) {
    ThreadTeam team(n_threads);
    nlohmann::ordered_json result = nlohmann::ordered_json::array();
    for (const DType type : weight_formats()) {
      if (is_interrupted()) break;
      const bool is_quantised = cpu::PackedMatrix{type, 0, 0, nullptr}.is_quantised();
      const OperationClass kind = is_quantised ? OperationClass::kInt8Dot : OperationClass::kF32Fma;
      for (const int n_rows : kCeilingRows) {
        const double tops = measure_ceiling_tops(kernels, type, n_rows, 1, &team);
        result.push_back({{"format", dtype_info(type).name},
                          {"rows", n_rows},
                          {"tops", tops},
                          {"class", operation_class_name(kind)},
                          {"peak_fraction", tops / limits.peak_tops[static_cast<size_t>(kind)]}});
      }
    }
    return result;
  }

  static std::string text(const nlohmann::ordered_json& row, const MachineLimits& limits) {
    static const std::vector<Column> kColumns{{"format", "format", -8},
                                              {"rows", "rows", 5},
                                              {"TOPS", "tops", 7, 3},
                                              {"instructions", "class", -12},
                                              {"of peak %", "peak_fraction", 9, 1, 100}};
    std::string result = machine_line(row["isa"].get<std::string>(), row["n_threads"].get<int>(), limits);
    result += table_header(kColumns);
    for (const auto& ceiling : row["ceilings"]) result += table_row(kColumns, ceiling);
    return result + "\n";
  }

  std::string threads_;
  int memory_mib_ = 512;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_machine() { return std::make_unique<BenchMachineCommand>(); }

}  // namespace bass
