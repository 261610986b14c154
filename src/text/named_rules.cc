#include "text/named_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "text/regex.h"

namespace bass {
namespace {

// The expressions are those of the models' own files, where tokenizer.json has them as they stand here: loading such a
// file recognises its rules by them.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The letters are those that have an upper and a lower case.
constexpr std::string_view kDeepseekWords =
    "\\s?[A-Za-z\u00B5À-ÖØ-öø-ƺƼ-ƿ\u01C4-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-Ρ"
    "Σ-\u03F5Ϸ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅ"
    "ὐ-ὗὙὛὝὟ-\u1F7Dᾀ-ᾴᾶ-ᾼ\u1FBEῂ-ῄῆ-ῌῐ-\u1FD3ῖ-\u1FDBῠ-Ῥῲ-ῴῶ-ῼ\u2102"
    "\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-"
    "\u213F\u2145-\u2149ⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿ\uFB00-\uFB06"
    "\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
constexpr std::string_view kDeepseekPunctuation = "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E‘-‟\u3000-。]+";
constexpr std::string_view kDeepseekHan = "[一-龥ࠀ-一가-\uD7FF]+";
constexpr std::string_view kDeepseek3Han = "[一-龥\u3040-\u309F゠-\u30FF]+";
constexpr std::string_view kDeepseek3 = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                                        "\r\n"
                                        R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                                        "\r\n"
                                        R"(]*|\s*[)"
                                        "\r\n"
                                        R"(]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
constexpr std::string_view kDefaultPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view kNewline = "[\r\n]";

enum class Normal : uint8_t { kNone, kNfc };

/// A row of the table. An expression "digit" or "digits" stands for the digit splitter (one by one, or runs), and
/// "punctuation" for the splitter at runs of punctuation; "bytes" for where pieces become bytes, if not at the end.
struct NamedRules {
  std::string_view names;  // the first is the one to write
  std::array<std::string_view, 6> expressions;
  Normal normal = Normal::kNone;
  bool ignores_merges = false;
};

constexpr NamedRules kTable[] = {
    {"default", {kDefaultPunctuation, kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {"gpt-2 phi-2 jais gigachat roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code mellum "
     "a.x-4.0 trillion",
     {kGpt2}},
    {"smollm starcoder refact codeshell exaone minerva-7b granite", {"digit", kGpt2}},
    {"command-r", {"digit", kGpt2}, Normal::kNfc},
    {"olmo mpt", {kGpt2}, Normal::kNfc},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2 midm-2.0", {kLlama3}, Normal::kNone, true},
    {"dbrx smaug-bpe chatglm-bpe glm4", {kLlama3}},
    {"qwen2 stablelm2 deepseek-r1-qwen megrez kormo", {kQwen2}, Normal::kNfc},
    {"qwen35", {kQwen35}, Normal::kNfc},
    {"seed-coder", {kSeedCoder}},
    {"tekken", {kTekken}, Normal::kNone, true},
    {"gpt-4o llama4", {kGpt4o}},
    {"deepseek-llm", {kNewline, kDeepseekWords, kDeepseekPunctuation, R"(\s+$)", kDeepseekHan, "digit"}},
    {"deepseek-coder", {kNewline, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekHan, "digit"}},
    {"deepseek-v3", {R"(\p{N}{1,3})", kDeepseek3Han, kDeepseek3}},
    {"falcon", {"punctuation", kGpt2, "bytes", "digits", "[0-9][0-9][0-9]"}},
    {"bloom poro-chat gpt3-finnish", {kBloom}},
    {"viking", {kBloom, "digit"}},
};

SplitStep step_of(std::string_view expression) {
  SplitStep step;
  if (expression == "digit" || expression == "digits") {
    step.pattern = digit_pattern();
    if (expression == "digits") step.behavior = SplitBehavior::kContiguous;
  } else if (expression == "punctuation") {
    step.pattern = punctuation_pattern();
    step.behavior = SplitBehavior::kContiguous;
  } else if (expression == "bytes") {
    step.kind = SplitStep::Kind::kByteLevel;
  } else {
    step.pattern = expression;
  }
  return step;
}

TokenizerRules rules_of(const NamedRules& row) {
  TokenizerRules rules;
  rules.ignores_merges = row.ignores_merges;
  if (row.normal == Normal::kNfc) rules.normalizer.push_back({.kind = NormalizeStep::Kind::kNfc});
  bool has_bytes = false;
  for (const std::string_view expression : row.expressions) {
    if (expression.empty()) continue;
    has_bytes = has_bytes || expression == "bytes";
    rules.pre_tokenizer.push_back(step_of(expression));
  }
  if (!has_bytes) rules.pre_tokenizer.push_back(step_of("bytes"));
  return rules;
}

bool has_name(std::string_view names, std::string_view name) {
  return !name.empty() && fmt::format(" {} ", names).find(fmt::format(" {} ", name)) != std::string::npos;
}

/// Expressions that match every character cut the same whether what lies between matches is removed or not.
std::vector<SplitStep> canonical(std::vector<SplitStep> steps) {
  for (SplitStep& step : steps) {
    const bool covers_all = step.pattern.ends_with(R"(|\s+)") && !step.is_literal;
    if (step.kind != SplitStep::Kind::kSplit || !covers_all) continue;
    if (step.is_inverted && step.behavior == SplitBehavior::kRemoved) step.behavior = SplitBehavior::kIsolated;
    if (step.behavior == SplitBehavior::kIsolated) step.is_inverted = false;
  }
  return steps;
}

}  // namespace

bool adds_begin_by_default(std::string_view name) {
  const auto* const row = std::ranges::find_if(kTable, [&](const NamedRules& r) { return has_name(r.names, name); });
  return row != std::end(kTable) && row->ignores_merges;  // those of Llama 3 and Tekken
}

std::string_view gpt2_pattern() { return kGpt2; }

Result<TokenizerRules> find_named_rules(std::string_view name) {
  if (name.empty()) name = "default";
  const auto* const row = std::ranges::find_if(kTable, [&](const NamedRules& r) { return has_name(r.names, name); });
  if (row != std::end(kTable) && name.find(' ') == name.npos) return rules_of(*row);
  std::string known;
  for (const NamedRules& r : kTable) known += fmt::format("{}{}", known.empty() ? "" : " ", r.names);
  std::ranges::replace(known, ' ', ',');
  // The name comes from a file and must not steer a terminal.
  std::string shown(name.substr(0, 80));
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return invalid_file(fmt::format("the pre-tokenizer '{}' is unknown; BASS knows: {}", shown, known));
}

std::optional<std::string> name_of_rules(const TokenizerRules& rules) {
  const bool is_plain = rules.is_byte_level && rules.piece_model == PieceModel::kMergeRanks &&
                        rules.first_space == FirstSpace::kKeep && rules.added_tokens.empty();
  if (!is_plain) return std::nullopt;
  const std::vector<SplitStep> steps = canonical(rules.pre_tokenizer);
  for (const NamedRules& row : kTable) {
    const TokenizerRules named = rules_of(row);
    if (named.normalizer == rules.normalizer && named.pre_tokenizer == steps &&
        named.ignores_merges == rules.ignores_merges) {
      return std::string(row.names.substr(0, row.names.find(' ')));
    }
  }
  return std::nullopt;
}

}  // namespace bass
