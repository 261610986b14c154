#include "engine/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cache_folder.h"
#include "base/check.h"
#include "base/thread_team.h"
#include "engine/json_cache.h"
#include "kernels/cpu/kernels.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRounds = 5;  // the best one counts: others were disturbed
constexpr int64_t kPeakIterations = 1'000'000;
constexpr int64_t kReadStep = 4096;       // threads share the memory in such pieces
constexpr int64_t kReadBytes = 64 << 20;  // a round reads at least that: a small memory again and again

double best_seconds(const std::function<void()>& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// Results of the measured loops, so that the compiler keeps them. A cache line for each thread.
class Sink {
 public:
  explicit Sink(int n_threads) : sums_(static_cast<size_t>(n_threads) * 8) {}
  void add(const TeamContext& context, int64_t sum) { sums_[static_cast<size_t>(context.thread_idx()) * 8] += sum; }

 private:
  std::vector<int64_t> sums_;
};

}  // namespace

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

double median_of(std::vector<double> values) {
  BASS_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

MachineLimits median_of(std::span<const MachineLimits> rounds) {
  const auto median = [&](auto limit_of) {
    std::vector<double> values;
    for (const MachineLimits& round : rounds) values.push_back(limit_of(round));
    return median_of(std::move(values));
  };
  MachineLimits limits;
  limits.bandwidth_gb_s = median([](const MachineLimits& round) { return round.bandwidth_gb_s; });
  for (size_t i = 0; i < kOperationClasses; ++i) {
    limits.peak_tops[i] = median([i](const MachineLimits& round) { return round.peak_tops[i]; });
  }
  return limits;
}

double limit_seconds(const Work& work, const MachineLimits& limits) {
  const double read_s = limits.bandwidth_gb_s > 0 ? work.bytes / (limits.bandwidth_gb_s * 1e9) : 0;
  double compute_s = 0;
  for (size_t i = 0; i < kOperationClasses; ++i) {
    if (limits.peak_tops[i] > 0) compute_s += work.operations[i] / (limits.peak_tops[i] * 1e12);
  }
  return std::max(read_s, compute_s);
}

double limit_fraction(const Work& work, const MachineLimits& limits, double seconds) {
  return seconds > 0 ? limit_seconds(work, limits) / seconds : 0;
}

Result<MachineLimits> measure_limits(int n_threads, int64_t n_bytes) {
  MachineLimits limits;
  for (size_t i = 0; i < kOperationClasses; ++i) {
    BASS_ASSIGN_OR_RETURN(limits.peak_tops[i], measure_peak_tops(static_cast<OperationClass>(i), n_threads));
  }
  BASS_ASSIGN_OR_RETURN(limits.bandwidth_gb_s, measure_bandwidth_gb_s(n_threads, n_bytes));
  return limits;
}

Result<double> measure_peak_tops(OperationClass kind, int n_threads) {
  BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
  const cpu::PeakLoop& loop = kernels->peak_loops[static_cast<size_t>(kind)];
  ThreadTeam team(n_threads);
  Sink sink(n_threads);
  const double seconds = best_seconds(
      [&] { team.run([&](const TeamContext& context) { sink.add(context, loop.run(kPeakIterations)); }); });
  return static_cast<double>(kPeakIterations) * loop.operations * n_threads / seconds * 1e-12;
}

Result<double> measure_bandwidth_gb_s(int n_threads, int64_t n_bytes) {
  BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
  ThreadTeam team(n_threads);
  Sink sink(n_threads);
  const int64_t n_steps = std::clamp<int64_t>(n_bytes / kReadStep, 1, int64_t{1} << 18);  // at most 1 GiB
  const int64_t n_passes = std::max<int64_t>(kReadBytes / (n_steps * kReadStep), 1);
  const AlignedBuffer memory(static_cast<size_t>(n_steps * kReadStep));
  if (!memory.ok()) return resource_exhausted(fmt::format("no memory for {} MiB to read", n_steps * kReadStep >> 20));
  std::memset(memory.data(), 1, memory.size_bytes());  // pages that were never written would all be one and the same
  const double seconds = best_seconds([&] {
    team.run([&](const TeamContext& context) {
      const WorkRange mine = context.share(static_cast<int>(n_steps));
      for (int64_t pass = 0; pass < n_passes; ++pass) {
        sink.add(context, kernels->read_bytes(memory.data() + mine.begin * kReadStep,
                                              static_cast<size_t>((mine.end - mine.begin) * kReadStep)));
      }
    });
  });
  return static_cast<double>(n_passes * n_steps * kReadStep) / seconds * 1e-9;
}

Result<double> best_peak_tops(int n_threads) {
  BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
  BASS_ASSIGN_OR_RETURN(const double measured, measure_peak_tops(OperationClass::kInt8Dot, n_threads));
  const std::string path = cache_folder() + "/machine.json";
  // A cache folder may be shared by machines, and by versions of which the earlier ones measured too much.
  const std::string key =
      fmt::format("{} {} {} threads, loops {}", processor_name(), kernels->name, n_threads, cpu::kPeakLoopsVersion);
  Json cache = read_json_cache(path);
  const Json entry = cache.value(key, Json());
  if (entry.is_object() && entry.contains("peak_tops") && entry["peak_tops"].is_number()) {
    if (const double kept = entry["peak_tops"].get<double>(); kept >= measured) return kept;
  }
  cache[key] = {{"peak_tops", measured}};
  write_json_cache(path, cache);
  return measured;
}

}  // namespace bass
