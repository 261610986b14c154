// The end of `bass generate`: samples, summary, JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/output.h"
#include "cli/results.h"
#include "engine/options.h"

namespace bass {

/// CONTRACT.md's object.
nlohmann::ordered_json result_json(const GenerationResult& result);

/// The ranked samples on standard output, or only their texts with `quiet`. On a terminal, control characters that
/// a model wrote are replaced.
void print_samples(const GenerationResult& result, const GenerateOptions& options, Output* out);

/// Tokens a second, latencies, acceptance, draft lengths, utilisation of a machine that can do `peak_tops`.
std::string summary_text(const GenerationResult& result, double peak_tops);

/// What the drafts brought, in sentences.
std::string explanation_text(const GenerationResult& result, const GenerateOptions& options);

/// A colour for a token's origin, and what ends it; "" for regular tokens.
std::string_view origin_color(TokenOrigin origin);
inline constexpr std::string_view kResetColor = "\x1b[0m";
/// "accepted draft, correction, bonus, regular", coloured or with the letters of plain output.
std::string origin_legend(bool has_color);

/// Where the token lies that the byte at `offset` of the choice's text came from. Needs token_ends.
TokenOrigin origin_at(const ChoiceResult& choice, size_t offset);

}  // namespace bass
