// The end of `bass generate`: samples, summary, JSON.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/output.h"
#include "cli/results.h"
#include "engine/options.h"

namespace bass {

/// A number that may be missing: null, or "-" in place of two decimals.
nlohmann::ordered_json nullable(const std::optional<double>& value);
std::string number_or_dash(const std::optional<double>& value);

/// The object of a prompt, with the digest of what was asked if there is one.
nlohmann::ordered_json prompt_json(const PromptResult& prompt, bool shows_origins, std::string_view request = "");

/// The object of docs/command_line.md on one line, with its line feed, in pieces: a prompt's is made when those before
/// it have been taken, so that a run's results are not there three times at its end. shows_origins: with where each
/// token came from; explanation: of speculation, null for none. The first error of `take` ends it.
Status give_result_json(const GenerationResult& result, bool shows_origins, const nlohmann::ordered_json& explanation,
                        const std::function<Status(std::string_view)>& take);

/// The ranked samples on standard output, or only their texts with `quiet`. On a terminal, control characters that
/// a model wrote are replaced.
void print_samples(const GenerationResult& result, const GenerateOptions& options, Output* out);

/// Tokens a second, latencies, acceptance, draft lengths, utilisation of a machine that can do `peak_tops`.
std::string summary_text(const GenerationResult& result, const GenerateOptions& options, double peak_tops);

/// A colour for a token's origin, and what ends it; "" for regular tokens.
std::string_view origin_color(TokenOrigin origin);
inline constexpr std::string_view kResetColor = "\x1b[0m";

/// Text whose colour changes only where it has to.
class ColoredText {
 public:
  /// color: an escape sequence, or empty for none.
  void add(std::string_view color, std::string_view text) {
    change(color);
    text_ += text;
  }
  /// The text, with the terminal's own colour behind it.
  std::string finish() {
    change("");
    return std::move(text_);
  }

 private:
  void change(std::string_view color) {
    if (color == color_) return;
    text_ += color_.empty() ? "" : kResetColor;
    text_ += color;
    color_ = color;
  }

  std::string text_;
  std::string_view color_;
};
/// "accepted draft, correction, bonus, regular", coloured or with the letters of plain output.
std::string origin_legend(bool has_color);

/// Where the token lies that the byte at `offset` of the choice's text came from. Needs token_ends.
TokenOrigin origin_at(const ChoiceResult& choice, size_t offset);

}  // namespace bass
