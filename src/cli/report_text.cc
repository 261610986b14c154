#include <fmt/format.h>

#include <algorithm>

#include "cli/explanation.h"
#include "cli/report.h"
#include "cli/terminal_text.h"

namespace bass {
namespace {

struct OriginLook {
  std::string_view name;
  std::string_view color;
  char letter;
};

OriginLook look_of(TokenOrigin origin) {
  switch (origin) {
    case TokenOrigin::kAccepted:
      return {"accepted draft", "\x1b[32m", 'A'};
    case TokenOrigin::kCorrection:
      return {"correction", "\x1b[31m", 'C'};
    case TokenOrigin::kBonus:
      return {"bonus", "\x1b[36m", 'B'};
    case TokenOrigin::kRegular:
      break;
  }
  return {"regular", "", '.'};
}

std::string colored_text(const ChoiceResult& choice) {
  ColoredText text;
  for (const TerminalChar& c : split_for_terminal(choice.text))
    text.add(origin_color(origin_at(choice, c.offset)), c.bytes);
  return text.finish();
}

std::string origin_letters(const ChoiceResult& choice) {
  std::string letters;
  for (const TokenInfo& token : choice.tokens) letters += look_of(token.origin).letter;
  return letters;
}

std::string choice_header(const ChoiceResult& choice) {
  const std::string score =
      choice.mean_logprob.has_value() ? fmt::format(", mean log-probability {:.3f}", *choice.mean_logprob) : "";
  return fmt::format("[{}] sample {}: {}, {} tokens{}", choice.rank, choice.index, to_string(choice.finish_reason),
                     choice.n_tokens, score);
}

void print_choice(const ChoiceResult& choice, const GenerateOptions& options, Output* out) {
  const bool is_colored = options.show_drafts && out->has_color();
  if (!options.quiet) {
    const std::string header = choice_header(choice);
    out->write(out->has_color() ? fmt::format("\x1b[1m{}{}\n", header, kResetColor) : header + "\n");
  }
  const std::string text = is_colored           ? colored_text(choice)
                           : out->is_terminal() ? for_terminal(choice.text)
                                                : choice.text;
  out->write(text + "\n");
  if (options.quiet) return;
  if (options.show_drafts && !is_colored) out->write(fmt::format("tokens: {}\n", origin_letters(choice)));
  out->write("\n");
}

std::string prompt_header(const PromptResult& prompt) {
  const std::string id = prompt.id.has_value() ? fmt::format(", id {}", prompt.id->dump()) : "";
  return fmt::format("== prompt {}{}\n", prompt.index, id);
}

std::string histogram_text(const Summary& summary) {
  std::string text;
  for (int len = 0; len <= summary.longest_draft; ++len) {
    const int64_t n = summary.speculation.draft_length_histogram[static_cast<size_t>(len)];
    if (n > 0) text += fmt::format("{}{}:{}", text.empty() ? "" : "  ", len, n);
  }
  return text.empty() ? "-" : text;
}

}  // namespace

std::string number_or_dash(const std::optional<double>& value) {
  return value.has_value() ? fmt::format("{:.2f}", *value) : "-";
}

std::string_view origin_color(TokenOrigin origin) { return look_of(origin).color; }

std::string origin_legend(bool has_color) {
  std::string legend;
  for (const TokenOrigin origin :
       {TokenOrigin::kAccepted, TokenOrigin::kCorrection, TokenOrigin::kBonus, TokenOrigin::kRegular}) {
    const OriginLook look = look_of(origin);
    if (!legend.empty()) legend += ", ";
    legend += has_color ? fmt::format("{}{}{}", look.color, look.name, look.color.empty() ? "" : kResetColor)
                        : fmt::format("{} {}", look.letter, look.name);
  }
  return legend;
}

TokenOrigin origin_at(const ChoiceResult& choice, size_t offset) {
  const auto end = std::upper_bound(choice.token_ends.begin(), choice.token_ends.end(), offset);
  if (choice.tokens.empty()) return TokenOrigin::kRegular;
  const size_t idx = static_cast<size_t>(end - choice.token_ends.begin());
  return choice.tokens[std::min(idx, choice.tokens.size() - 1)].origin;
}

void print_samples(const GenerationResult& result, const GenerateOptions& options, Output* out) {
  if (options.show_drafts && !options.quiet) out->write(fmt::format("tokens: {}\n\n", origin_legend(out->has_color())));
  for (const PromptResult& prompt : result.prompts) {
    if (result.prompts.size() > 1 && !options.quiet) out->write(prompt_header(prompt));
    for (const ChoiceResult* choice : ranked_choices(prompt)) print_choice(*choice, options, out);
  }
}

std::string summary_text(const GenerationResult& result, const GenerateOptions& options, double peak_tops) {
  const Summary summary = summarise(result);
  const EngineStats& stats = result.stats;
  std::string text = fmt::format("model           {}\n", for_terminal(result.model));
  if (result.draft.has_value()) text += fmt::format("draft           {}\n", for_terminal(*result.draft));
  text += fmt::format(
      "speed           {:.1f} tokens/s: {} tokens in {:.2f} s (prefill {:.2f} s, decode {:.2f} s; loading {:.2f} s)\n",
      summary.tokens_per_s, summary.completion_tokens, result.total_s, stats.prefill_s, stats.decode_s, result.load_s);
  text += fmt::format("ms a token      first {}, last {}, all {}\n", number_or_dash(summary.latency.first_ms),
                      number_or_dash(summary.latency.last_ms), number_or_dash(summary.latency.all_ms));
  if (summary.acceptance_rate.has_value()) {
    text += fmt::format("acceptance      {:.1f} % of {} drafted tokens; {:.2f} tokens a round, {} rounds\n",
                        100 * *summary.acceptance_rate, summary.speculation.drafted, *summary.tokens_per_round,
                        summary.speculation.rounds);
  } else {
    text += "acceptance      - (nothing was drafted)\n";
  }
  text += fmt::format("draft lengths   {}   (length:steps; 0 is a step without a draft)\n", histogram_text(summary));
  const bool is_explained = options.explain_speculation;  // which ends with this sentence
  if (const auto warning = draft_warning(result, options); warning && !is_explained)
    text += fmt::format("drafts          {}\n", *warning);
  if (const GraphCounts& graphs = stats.graphs; graphs.n_passes() > 0) {
    text += fmt::format("graphs          {} passes as {} graphs, {} kernel by kernel\n", graphs.replayed,
                        graphs.recorded, graphs.launched_one_by_one);
  }
  const double peak_operations = stats.busy_s * peak_tops * 1e12;
  const double utilisation = peak_operations > 0 ? stats.work.total_operations() / peak_operations : 0;
  text += fmt::format("utilisation     {:.1f} % of this machine's {:.2f} TOPS\n", 100 * utilisation, peak_tops);
  return text;
}

}  // namespace bass
