#include <fmt/format.h>

#include <algorithm>

#include "cli/explanation.h"
#include "cli/report.h"
#include "cli/terminal_text.h"

namespace bass {
namespace {

/// As the engine resolves it for the command line's options.
VerifyRule used_rule(const GenerateOptions& options) {
  const Request& request = options.request;
  return used_verify_rule(request.sampling.temperature, request.speculation.verify, request.seed.has_value());
}

std::string settings_lines(const GenerationResult& result, const GenerateOptions& options) {
  return fmt::format("speculation     drafter {}, draft length {}, verification {}\ndraft model     {}\n",
                     option_value(*find_option("drafter"), options), options.request.speculation.draft_length,
                     verify_rule_name(used_rule(options)),
                     result.draft.has_value() ? for_terminal(*result.draft) : "none");
}

std::string time_line(const Explanation& explanation) {
  const double percent = explanation.decode_s > 0 ? 100 / explanation.decode_s : 0;
  return fmt::format(
      "decode time     {:.2f} s: draft model {:.1f} %, steps with drafts {:.1f} %, regular steps {:.1f} %, the rest "
      "{:.1f} %\n",
      explanation.decode_s, percent * explanation.draft_s, percent * explanation.drafted_steps_s,
      percent * explanation.regular_steps_s, percent * explanation.other_s);
}

std::string kinds_table(const SpeculationAccount& account, const Explanation& explanation) {
  constexpr std::array<std::string_view, SpeculationAccount::kKinds> kNames = {"regular", "n-gram drafts",
                                                                               "draft model"};
  std::string text = fmt::format("{:<16}{:>7}{:>9}{:>10}{:>12}{:>9}{:>10}\n", "steps", "number", "tokens", "seconds",
                                 "if regular", "speedup", "expected");
  for (size_t i = 0; i < kNames.size(); ++i) {
    const StepKindSums& kind = account.kinds[i];
    if (kind.n_steps == 0) continue;
    text += fmt::format("{:<16}{:>7}{:>9}{:>10.3f}{:>12.3f}{:>9}{:>10}\n", kNames[i], kind.n_steps, kind.n_tokens,
                        seconds_of(kind), kind.regular_s, number_or_dash(explanation.speedup_of[i]),
                        number_or_dash(explanation.expected_speedup_of[i]));
  }
  return text + fmt::format("{:<16}{:>7}{:>9}{:>10.3f}{:>12.3f}{:>9}\n", "all", "", "", explanation.decode_s,
                            explanation.regular_s, number_or_dash(explanation.speedup));
}

std::string sources_table(const SpeculationAccount& account) {
  std::string text = fmt::format("{:<16}{:>7}{:>9}{:>10}{:>10}   {}\n", "drafts", "rounds", "drafted", "accepted",
                                 "expected", "% accepted at position 1, 2, ... if reached");
  for (size_t i = 0; i < account.sources.size(); ++i) {
    const DraftSourceSums& source = account.sources[i];
    if (source.rounds == 0) continue;
    const bool is_expected = source.n_expected == source.rounds;
    text += fmt::format("{:<16}{:>7}{:>9}{:>10}{:>10}  ", source_name(i), source.rounds, source.drafted,
                        source.accepted, is_expected ? fmt::format("{:.0f}", source.expected) : "-");
    for (const double rate : acceptance_by_position(source)) text += fmt::format("{:>4.0f}", 100 * rate);
    text += "\n";
  }
  return text;
}

std::string rows_of(size_t size_idx) {
  const auto& limits = SpeculationAccount::kSizes;
  const int first = size_idx == 0 ? 1 : limits[size_idx - 1] + 1;
  if (size_idx + 1 == limits.size()) return fmt::format("{} and more", first);
  return first == limits[size_idx] ? fmt::format("{}", first) : fmt::format("{} to {}", first, limits[size_idx]);
}

std::string rows_table(const SpeculationAccount& account, const Explanation& explanation) {
  std::string text = fmt::format("{:<16}{:>7}{:>9}{:>10}\n", "rows of a step", "steps", "ms", "predicted");
  for (size_t i = 0; i < account.sizes.size(); ++i) {
    const StepSizeSums& size = account.sizes[i];
    if (size.n_steps == 0) continue;
    const double per_step = 1e3 / static_cast<double>(size.n_steps);
    text += fmt::format("{:<16}{:>7}{:>9.2f}{:>10.2f}\n", rows_of(i), size.n_steps, size.step_s * per_step,
                        size.predicted_s * per_step);
  }
  if (explanation.draft_pass_ms.has_value()) {
    text += fmt::format("{:<16}{:>7}{:>9.2f}{:>10}\n", "draft's pass", account.n_draft_passes,
                        *explanation.draft_pass_ms, number_or_dash(explanation.predicted_draft_pass_ms));
  }
  if (explanation.step_error.has_value()) {
    text += fmt::format("A step took {:.0f} % more or less than was predicted, on average.\n",
                        100 * *explanation.step_error);
  }
  return text;
}

// Why lengths were what they were.
std::string price_line(const Explanation& explanation) {
  if (!explanation.row_price.has_value()) return "";
  const double pass_price = explanation.pass_price.value_or(0);
  const double price = *explanation.row_price + pass_price;
  const std::string parts = pass_price > 0 ? fmt::format(" ({:.2f} for its row of a step, {:.2f} for the draft model)",
                                                         *explanation.row_price, pass_price)
                                           : "";
  return fmt::format("A drafted token took as long as {:.2f} tokens of regular decoding{}: {}.\n", price, parts,
                     price < 1 ? "it pays if it is accepted more often" : "none can pay");
}

}  // namespace

std::string explanation_text(const GenerationResult& result, const GenerateOptions& options) {
  const SpeculationAccount& account = result.stats.account;
  const Explanation explanation = explain(result.stats);
  std::string text = settings_lines(result, options) + time_line(explanation) + "\n";
  if (explanation.decode_s > 0) text += kinds_table(account, explanation) + "\n";
  if (result.stats.speculation.rounds > 0) text += sources_table(account) + "\n";
  if (explanation.decode_s > 0) text += rows_table(account, explanation) + price_line(explanation) + "\n";
  if (account.n_unpromising > 0) {
    text += fmt::format("Steps with drafts that were not expected to pay{}: {} ({:.2f} s).\n",
                        knows_costs(options) ? " (tries, or for sequences that others wait for)" : "",
                        account.n_unpromising, account.unpromising_s);
  }
  return text + conclusion(result, options) + "\n\n";
}

}  // namespace bass
