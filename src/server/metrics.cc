#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace bass {
namespace {

class Metrics {
 public:
  void add(std::string_view name, std::string_view type, std::string_view help, double value) {
    begin(name, type, help);
    text_ += fmt::format("bass_{} {}\n", name, value);
  }
  void add(std::string_view name, std::string_view help, const SecondsHistogram& histogram) {
    begin(name, "histogram", help);
    const auto cumulative = histogram.cumulative();
    for (size_t i = 0; i < SecondsHistogram::kBounds.size(); ++i) {
      text_ += fmt::format("bass_{}_bucket{{le=\"{}\"}} {}\n", name, SecondsHistogram::kBounds[i], cumulative[i]);
    }
    text_ += fmt::format("bass_{0}_bucket{{le=\"+Inf\"}} {1}\nbass_{0}_sum {2}\nbass_{0}_count {1}\n", name,
                         cumulative.back(), histogram.sum_s());
  }
  void gauge(std::string_view name, std::string_view help, int64_t value) {
    add(name, "gauge", help, static_cast<double>(value));
  }
  void count(std::string_view name, std::string_view help, int64_t value) {
    add(name, "counter", help, static_cast<double>(value));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP bass_{0} {1}\n# TYPE bass_{0} {2}\n", name, help, type);
  }

  std::string text_;
};

}  // namespace

void SecondsHistogram::add(double seconds) {
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  ++counts_[static_cast<size_t>(bound - kBounds.begin())];
  sum_s_ += seconds;
}

std::array<int64_t, SecondsHistogram::kBounds.size() + 1> SecondsHistogram::cumulative() const {
  std::array<int64_t, kBounds.size() + 1> sums{};
  std::partial_sum(counts_.begin(), counts_.end(), sums.begin());
  return sums;
}

std::string metrics_text(const CallCounts& calls, const PromptCounts& prompts, const CallTimes& times,
                         const EngineStats& stats) {
  Metrics metrics;
  metrics.gauge("calls_running", "Calls that run or wait.", calls.running);
  metrics.count("calls_answered_total", "Calls that were answered.", calls.answered);
  metrics.count("calls_refused_total", "Calls that were refused before anything ran.", calls.refused);
  metrics.count("calls_broken_total", "Calls whose caller went away, or that failed.", calls.broken);
  metrics.gauge("prompts_waiting", "Prompts of which no token has come yet.", prompts.waiting);
  metrics.gauge("prompts_running", "Prompts of which tokens come.", prompts.running);
  metrics.add("time_to_first_token_seconds", "From a call's arrival to the first token of a prompt.",
              times.first_token);
  metrics.add("time_per_output_token_seconds", "Of a sample behind its prompt, by its tokens.", times.token);
  metrics.add("call_duration_seconds", "From a call's arrival to the end of its answer.", times.call);
  metrics.count("prompt_tokens_total", "Prompt tokens that were read.", stats.prefill_tokens);
  metrics.count("cached_prompt_tokens_total", "Prompt tokens that need not be read, as others begin so.",
                stats.cached_tokens);
  metrics.count("decode_tokens_total", "Tokens of the steps that read no prompt.", stats.decode_tokens);
  metrics.count("steps_total", "Passes of the main model.", stats.steps);
  metrics.add("busy_seconds_total", "counter", "Seconds spent in steps.", stats.busy_s);
  metrics.count("verification_rounds_total", "Sequences' steps that verified a draft.", stats.speculation.rounds);
  metrics.count("drafted_tokens_total", "Drafted tokens that were verified.", stats.speculation.drafted);
  metrics.count("accepted_tokens_total", "Drafted tokens that were accepted.", stats.speculation.accepted);
  return metrics.text();
}

}  // namespace bass
