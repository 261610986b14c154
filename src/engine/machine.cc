#include "engine/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cache_folder.h"
#include "base/check.h"
#include "base/thread_team.h"
#include "kernels/cpu/kernels.h"

namespace bass {
namespace {

constexpr int kRounds = 5;                        // the best one counts: others were disturbed
constexpr size_t kReadBytes = size_t{256} << 20;  // weights of a real model, more than most caches hold
constexpr int64_t kDotIterations = 2'000'000;

double best_seconds(const std::function<void()>& body) {
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// The processor's name: a cache folder may be shared by machines.
std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  }
  return "unknown";
}

}  // namespace

Result<MachinePeaks> measure_machine(int n_threads) {
  BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
  ThreadTeam team(n_threads);
  std::vector<std::byte> memory(kReadBytes, std::byte{1});
  std::vector<int64_t> sums(static_cast<size_t>(n_threads) * 8);  // a cache line each, so that the work is not optimised away
  MachinePeaks peaks;
  const double read_s = best_seconds([&] {
    team.run([&](const TeamContext& context) {
      const WorkRange mine = context.share(static_cast<int>(kReadBytes >> 12));
      const size_t begin = static_cast<size_t>(mine.begin) << 12;
      sums[static_cast<size_t>(context.thread_idx()) * 8] +=
          kernels->read_bytes(memory.data() + begin, (static_cast<size_t>(mine.end) << 12) - begin);
    });
  });
  peaks.bandwidth_gb_s = static_cast<double>(kReadBytes) / read_s * 1e-9;
  const double dot_s = best_seconds([&] {
    team.run([&](const TeamContext& context) {
      sums[static_cast<size_t>(context.thread_idx()) * 8] += kernels->dot_peak(kDotIterations);
    });
  });
  peaks.peak_tops = static_cast<double>(kDotIterations) * kernels->dot_peak_operations * n_threads / dot_s * 1e-12;
  return peaks;
}

Result<MachinePeaks> cached_machine_peaks(int n_threads) {
  BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
  const std::string key = fmt::format("{} {} {} threads", processor_name(), kernels->name, n_threads);
  const std::string path = cache_folder() + "/machine.json";
  nlohmann::json cache = nlohmann::json::object();
  if (std::ifstream file(path); file) cache = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!cache.is_object()) cache = nlohmann::json::object();
  const nlohmann::json entry = cache.value(key, nlohmann::json());
  const auto number = [&entry](const char* name) {
    return entry.is_object() && entry.contains(name) && entry[name].is_number() ? entry[name].get<double>() : 0.0;
  };
  if (number("bandwidth_gb_s") > 0 && number("peak_tops") > 0) {
    return MachinePeaks{number("bandwidth_gb_s"), number("peak_tops")};
  }
  BASS_ASSIGN_OR_RETURN(const MachinePeaks peaks, measure_machine(n_threads));
  cache[key] = {{"bandwidth_gb_s", peaks.bandwidth_gb_s}, {"peak_tops", peaks.peak_tops}};
  if (make_cache_folder().ok()) std::ofstream(path) << cache.dump(2) << '\n';
  return peaks;
}

}  // namespace bass
