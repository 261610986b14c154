#include "server/metrics.h"

#include <fmt/format.h>

#include <string_view>

namespace bass {
namespace {

class Metrics {
 public:
  void add(std::string_view name, std::string_view type, std::string_view help, double value) {
    text_ += fmt::format("# HELP bass_{0} {1}\n# TYPE bass_{0} {2}\nbass_{0} {3}\n", name, help, type, value);
  }
  void count(std::string_view name, std::string_view help, int64_t value) {
    add(name, "counter", help, static_cast<double>(value));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::string metrics_text(const CallCounts& calls, const EngineStats& stats) {
  Metrics metrics;
  metrics.add("calls_running", "gauge", "Calls that run or wait.", static_cast<double>(calls.running));
  metrics.count("calls_answered_total", "Calls that were answered.", calls.answered);
  metrics.count("calls_refused_total", "Calls that were refused before anything ran.", calls.refused);
  metrics.count("calls_broken_total", "Calls whose caller went away, or that failed.", calls.broken);
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
