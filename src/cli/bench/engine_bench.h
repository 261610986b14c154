// What the measurements of a running engine share: their options, and running batches between measurements of the
// machine.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/bench/table.h"
#include "cli/bench/workload.h"
#include "engine/machine.h"

namespace bass {

/// The options of a measurement: of the engine, and of the batches that it is given.
class EngineBenchArguments {
 public:
  /// A text that is not there: there is no such option, and the number is 1.
  struct Defaults {
    std::optional<std::string> batch = "1,2,4,8";
    std::optional<std::string> n_prompt_tokens = "64";
    std::optional<std::string> n_generated = "64";
    int n_rounds = 3;
  };

  /// `names`: rows of the options table beside those that every measurement of an engine has.
  void add(CLI::App* app, std::initializer_list<std::string_view> names, Defaults defaults);

  /// Reads what was given; engine options that were not are made to fit the cases: every batch with every prompt,
  /// greedy unless a sampling option is given, and where drafts are at hand once without and once with them.
  Status read();

  [[nodiscard]] const std::vector<BenchCase>& cases() const { return cases_; }
  /// The cases --rounds times, in turn, so that a disturbance meets all of them: case i % cases().size() in place i.
  [[nodiscard]] std::vector<BenchCase> rounds() const;
  [[nodiscard]] GenerateOptions& options() { return options_; }

 private:
  TableArguments arguments_;
  Defaults texts_;
  GenerateOptions options_;
  std::vector<BenchCase> cases_;
};

/// The runs of a number of cases, and the machine's limits, measured before the first and after each of them.
struct MeasuredCases {
  MachineLimits limits;  ///< medians
  size_t n_runs = 0;     ///< less than asked for when there was an error
  Status status;
};

/// Runs all cases, after one that is not counted: the first touch of weights and caches. `on_run(i, run)` is called
/// after each; `on_start(i)` before.
MeasuredCases run_cases(Engine* engine, const Request& prototype, std::span<const BenchCase> cases,
                        const std::function<void(size_t)>& on_start,
                        const std::function<void(size_t, const BenchRun&)>& on_run);

/// The element of the middle `seconds(element)` (of an even number: the later of both): what disturbed another round is
/// not in it. elements: at least one
template <class Element, class Seconds>
const Element& middle_of(std::vector<Element>* elements, Seconds seconds) {
  const auto middle = elements->begin() + static_cast<ptrdiff_t>(elements->size() / 2);
  std::nth_element(elements->begin(), middle, elements->end(),
                   [&](const Element& a, const Element& b) { return seconds(a) < seconds(b); });
  return *middle;
}

/// "avx512vnni, 2 threads: 18.3 GB/s, int8 dot 1.21 TOPS, fp32 fma 0.29 TOPS\n"
std::string machine_line(std::string_view isa_name, int n_threads, const MachineLimits& limits);
/// The same as JSON: {"isa", "n_threads", "bandwidth_gb_s", "peak_tops": {"int8_dot", "int16_dot", "f32_fma"}}
nlohmann::ordered_json machine_json(std::string_view isa_name, int n_threads, const MachineLimits& limits);

/// "int8_dot", "int16_dot", "f32_fma"
std::string_view operation_class_name(OperationClass kind);
/// {"int8_dot": 1e9, "int16_dot": 1e7, "f32_fma": 1e6}
nlohmann::ordered_json operations_json(const Work& work);

}  // namespace bass
