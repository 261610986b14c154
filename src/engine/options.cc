#include "engine/options.h"

#include <fmt/format.h>

#include <array>

#include "engine/device_choice.h"
#include "engine/tools.h"
#include "speculation/draft_length.h"
#include "tensor/quantise.h"
#include "text/chat_template.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"
#include "text/utf8.h"

namespace bass {
namespace {

constexpr double kMaxInt = std::numeric_limits<int>::max();
constexpr double kMaxTemperature = 1e6;
constexpr double kMaxSeconds = 1e8;  // as much as never; a clock's nanoseconds end at 9e9
constexpr double kMaxMib = 1e9;
using enum OptionGroup;

Status check_not_empty(std::string_view text) {
  if (text.empty()) return invalid_argument("must not be empty");
  return ok_status();
}

Status check_utf8(std::string_view text) {
  const std::optional<size_t> offset = find_invalid_utf8(text);
  if (!offset.has_value()) return ok_status();
  return invalid_argument(fmt::format("invalid UTF-8 at byte {} (0x{:02X}); save the text as UTF-8", *offset,
                                      static_cast<unsigned char>(text[*offset])));
}

Status check_stop(std::string_view text) {
  const Status status = check_not_empty(text);
  return status.ok() ? check_utf8(text) : status;
}

Status check_draft_length(std::string_view text) {
  const Result<DraftLengthSpec> spec = parse_draft_length(text);
  return spec.ok() ? ok_status() : spec.status();
}

Status check_quantize(std::string_view text) {
  if (text == "none" || find_quantisable_type(text).has_value()) return ok_status();
  return invalid_argument("must be none, q8_0, q5_1, q5_0, q4_1 or q4_0");
}

Status check_json_schema(std::string_view text) { return json_schema_grammar(text).status(); }

Status check_regex(std::string_view text) {
  GrammarBuilder builder;
  return regex_sequence(builder, text, RegexText::kPlain).status();
}

/// A row whose value is `expression`, a member's path of GenerateOptions `o`.
#define BASS_FIELD(expression) [](GenerateOptions& o) -> OptionField { return &o.expression; }

constexpr std::array kOptions{
    Option{.name = "model",
           .short_name = 'm',
           .group = kModel,
           .value_name = "MODEL",
           .unset = "required",
           .help = "main model: a GGUF file, a Hugging Face checkpoint (a directory, or a .safetensors file in it), or "
                   "the name of a model that `bass pull` fetched (smollm2, ORG/NAME[@REVISION][:FILE])",
           .field = BASS_FIELD(engine.model_path),
           .check = check_not_empty},
    Option{.name = "draft",
           .short_name = 'd',
           .group = kModel,
           .value_name = "DRAFT",
           .unset = "the one that comes with MODEL (smollm2), or none",
           .help = "draft model: a small GGUF file or checkpoint with the main model's vocabulary",
           .field = BASS_FIELD(engine.draft_path),
           .check = check_not_empty},
    Option{.name = "quantize",
           .group = kModel,
           .value_name = "none|q8_0|q5_1|q5_0|q4_1|q4_0",
           .help = "quantise F32, F16 and BF16 matrices at load; what is quantised already stays as it is",
           .field = BASS_FIELD(engine.quantize),
           .check = check_quantize},

    Option{.name = "prompt",
           .short_name = 'p',
           .group = kPrompt,
           .is_once = true,
           .value_name = "TEXT",
           .unset = "none",
           .help = "the prompt",
           .field = BASS_FIELD(prompt)},
    Option{.name = "file",
           .short_name = 'f',
           .group = kPrompt,
           .is_once = true,
           .value_name = "FILE",
           .unset = "none",
           .help = "file that holds one prompt (-: standard input)",
           .field = BASS_FIELD(file),
           .check = check_not_empty},
    Option{
        .name = "prompts",
        .group = kPrompt,
        .is_once = true,
        .value_name = "FILE",
        .unset = "none",
        .help =
            "JSONL file of prompts (-: standard input); a line is {\"prompt\": TEXT, \"id\": any, ...} (or "
            "\"messages\"), where "
            "options from chat to verify, spelt as in \"max_tokens\", override the command line's (null: the default)",
        .field = BASS_FIELD(prompts),
        .check = check_not_empty},
    Option{.name = "chat",
           .group = kPrompt,
           .is_per_request = true,
           .help = "format the prompt by the model's chat template (special tokens that the prompt spells are taken as "
                   "such); --no-chat continues the text as it is",
           .field = BASS_FIELD(request.chat)},
    Option{.name = "system",
           .group = kPrompt,
           .is_per_request = true,
           .value_name = "TEXT",
           .unset = "none",
           .help = "system message, with --chat",
           .field = BASS_FIELD(request.system),
           .check = check_utf8},
    Option{
        .name = "tools",
        .group = kPrompt,
        .is_per_request = true,
        .is_json = true,
        .value_name = "JSON",
        .unset = "none",
        .help = "functions that the assistant may call, of a chat: a list as OpenAI's \"tools\"; calls are text here",
        .field = BASS_FIELD(request.tools),
        .check = check_tools},
    Option{.name = "chat_template_kwargs",
           .group = kPrompt,
           .is_per_request = true,
           .is_json = true,
           .value_name = "JSON",
           .unset = "none",
           .help = "more variables for a chat's template, like {\"enable_thinking\": false}",
           .field = BASS_FIELD(request.chat_template_kwargs),
           .check = check_template_variables},
    Option{.name = "continue_final_message",
           .group = kPrompt,
           .is_per_request = true,
           .help = "go on with the text of a chat's last message, in place of answering it",
           .field = BASS_FIELD(request.continue_final_message)},
    Option{.name = "think_first",
           .group = kPrompt,
           .is_per_request = true,
           .help = "of a chat: a schema or pattern holds behind the model's thoughts, if it has any",
           .field = BASS_FIELD(request.think_first)},
    Option{.name = "thinking_budget",
           .group = kPrompt,
           .is_per_request = true,
           .value_name = "N",
           .unset = "none",
           .range = ">= 0",
           .help = "of a chat: the model's thoughts, if it has any, end behind so many tokens",
           .field = BASS_FIELD(request.thinking_budget),
           .min = 0,
           .max = kMaxInt},

    Option{.name = "n",
           .group = kLimits,
           .is_per_request = true,
           .value_name = "N",
           .range = "from 1 to 65536",
           .help = "samples a prompt",
           .field = BASS_FIELD(request.n),
           .min = 1,
           .max = 65536},
    Option{.name = "max_tokens",
           .group = kLimits,
           .is_per_request = true,
           .value_name = "N",
           .range = ">= 1",
           .help = "new tokens a sample, at most",
           .field = BASS_FIELD(request.max_tokens),
           .min = 1,
           .max = kMaxInt},
    Option{.name = "min_tokens",
           .group = kLimits,
           .is_per_request = true,
           .value_name = "N",
           .range = ">= 0 and at most max-tokens",
           .help = "no end before so many new tokens",
           .field = BASS_FIELD(request.min_tokens),
           .min = 0,
           .max = kMaxInt},
    Option{.name = "stop",
           .group = kLimits,
           .is_per_request = true,
           .value_name = "TEXT",
           .unset = "none",
           .range = "a text that is not empty",
           .help = "end a sample before this text (repeatable)",
           .field = BASS_FIELD(request.stop),
           .check = check_stop},
    Option{.name = "stop_token_ids",
           .group = kLimits,
           .is_per_request = true,
           .value_name = "ID",
           .unset = "none",
           .range = "a token id >= 0",
           .help = "end a sample where this token is drawn, as at an end token (repeatable; in JSON [ID, ...])",
           .field = BASS_FIELD(request.stop_token_ids)},
    Option{.name = "ignore_eos",
           .group = kLimits,
           .is_per_request = true,
           .help = "ban the end tokens, so that samples go on to max-tokens",
           .field = BASS_FIELD(request.sampling.ignore_eos)},
    Option{.name = "top_logprobs",
           .group = kLimits,
           .is_per_request = true,
           .value_name = "N",
           .range = "from 0 to 20",
           .help = "report the N most probable tokens in each one's place, with their log-probabilities (in JSON)",
           .field = BASS_FIELD(request.top_logprobs),
           .min = 0,
           .max = 20},
    Option{.name = "time_budget",
           .group = kLimits,
           .is_per_request = true,
           .value_name = "SECONDS",
           .unset = "none",
           .range = "> 0 seconds",
           .help = "return what there is after so many seconds, loading not counted",
           .field = BASS_FIELD(request.time_budget_s),
           .min = 0,
           .max = kMaxSeconds,
           .is_min_excluded = true},

    Option{.name = "temperature",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "X",
           .range = ">= 0 (0 is greedy)",
           .help = "randomness; 0 is greedy",
           .field = BASS_FIELD(request.sampling.temperature),
           .min = 0,
           .max = kMaxTemperature},
    Option{.name = "top_p",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "X",
           .range = "above 0 and at most 1 (1 is off)",
           .help = "keep the likeliest tokens of this total probability",
           .field = BASS_FIELD(request.sampling.top_p),
           .min = 0,
           .max = 1,
           .is_min_excluded = true},
    Option{.name = "top_k",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "N",
           .range = ">= 0 (0 is off)",
           .help = "keep the N likeliest tokens; 0 is off",
           .field = BASS_FIELD(request.sampling.top_k),
           .min = 0,
           .max = kMaxInt},
    Option{.name = "min_p",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "X",
           .range = "from 0 (off) to 1",
           .help = "keep tokens at least X times as likely as the likeliest; 0 is off",
           .field = BASS_FIELD(request.sampling.min_p),
           .min = 0,
           .max = 1},
    Option{.name = "repetition_penalty",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "X",
           .range = "from 0.01 to 100 (1 is off)",
           .help = "make tokens of prompt and output less likely; 1 is off",
           .field = BASS_FIELD(request.sampling.repetition_penalty),
           .min = 0.01F,
           .max = 100},
    Option{.name = "presence_penalty",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "X",
           .range = "from -2 to 2",
           .help = "taken from the logit of a token that the output has",
           .field = BASS_FIELD(request.sampling.presence_penalty),
           .min = -2,
           .max = 2},
    Option{.name = "frequency_penalty",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "X",
           .range = "from -2 to 2",
           .help = "taken from a token's logit for each time that the output has it",
           .field = BASS_FIELD(request.sampling.frequency_penalty),
           .min = -2,
           .max = 2},
    Option{.name = "logit_bias",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "ID:BIAS",
           .unset = "none",
           .range = "ID:BIAS, a token id >= 0 and a number from -1000000 to 1000000",
           .help = "added to a token's logit (repeatable; in JSON {\"ID\": BIAS})",
           .field = BASS_FIELD(request.sampling.logit_bias)},
    Option{.name = "json_schema",
           .group = kSampling,
           .is_per_request = true,
           .is_json = true,
           .value_name = "JSON",
           .unset = "none",
           .help = "sample JSON texts that fit this JSON schema, and nothing else ({}: any JSON)",
           .field = BASS_FIELD(request.json_schema),
           .check = check_json_schema},
    Option{.name = "regex",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "PATTERN",
           .unset = "none",
           .help = "sample texts that match this regular expression as a whole, and nothing else",
           .field = BASS_FIELD(request.regex),
           .check = check_regex},
    Option{.name = "seed",
           .group = kSampling,
           .is_per_request = true,
           .value_name = "N",
           .unset = "each run differs",
           .range = "from 0 to 18446744073709551615",
           .help = "makes runs repeatable: prompt j of a file uses N + j; a line's own seed is used as it is",
           .field = BASS_FIELD(request.seed)},

    Option{.name = "drafter",
           .group = kSpeculation,
           .is_per_request = true,
           .value_name = "auto|model|ngram|off",
           .help = "who drafts: auto takes every drafter at hand (n-gram, and the draft model); with ngram or off, the "
                   "draft that comes with MODEL is not loaded",
           .field = BASS_FIELD(request.speculation.drafter)},
    Option{.name = "draft_length",
           .group = kSpeculation,
           .is_per_request = true,
           .value_name = "goodput|bass|survival|fixed:K|off",
           .help = "draft lengths: goodput drafts what pays on this machine; bass[:l0=7,inc=2,max=32,div=10] is the "
                   "paper's Algorithm 1; survival[:min=0.2] drafts tokens that have this chance, whatever they cost",
           .field = BASS_FIELD(request.speculation.draft_length),
           .check = check_draft_length},
    Option{.name = "verify",
           .group = kSpeculation,
           .is_per_request = true,
           .value_name = "auto|rejection|match|block",
           .help = "verification, lossless in every case; auto is match with a seed, block without",
           .field = BASS_FIELD(request.speculation.verify)},

    Option{.name = "max_batch",
           .group = kMachine,
           .value_name = "N",
           .range = "from 1 to 4096",
           .help = "sequences at once; further ones wait",
           .field = BASS_FIELD(engine.max_batch),
           .min = 1,
           .max = 4096},
    Option{.name = "threads",
           .group = kMachine,
           .value_name = "N",
           .unset = "all processors",
           .range = "from 0 (all processors) to 1024",
           .help = "threads; all: the processors of this process, at most what its container's CPU quota is worth",
           .field = BASS_FIELD(engine.n_threads),
           .min = 0,
           .max = 1024},
    Option{.name = "context",
           .group = kMachine,
           .value_name = "N",
           .unset = "the model's, bounded by memory",
           .range = ">= 1",
           .help = "tokens a sequence, prompt included, at most what the model was trained for; a sample that fills it "
                   "ends with `length`",
           .field = BASS_FIELD(engine.context_len),
           .min = 1,
           .max = kMaxInt},
    Option{.name = "kv_memory",
           .group = kMachine,
           .value_name = "MIB",
           .unset = "a quarter of what the models leave free, on a GPU half",
           .range = ">= 1 MiB",
           .help = "memory for the KV caches; what it holds bounds the context where that is not given",
           .field = BASS_FIELD(engine.kv_memory_mib),
           .min = 1,
           .max = kMaxMib},
    Option{.name = "prefix_cache",
           .group = kMachine,
           .value_name = "MIB",
           .unset = "a quarter of the KV caches",
           .range = "from 0 MiB (every prompt is read anew)",
           .help = "part of the KV caches that keeps finished texts, so that later prompts with the same beginning are "
                   "not read again; given up where others need the room; outputs do not depend on it",
           .field = BASS_FIELD(engine.prefix_cache_mib),
           .min = 0,
           .max = kMaxMib},
    Option{.name = "max_step_tokens",
           .group = kMachine,
           .value_name = "N",
           .range = "from 16 to 65536",
           .help = "tokens computed in one step, over all sequences; longer prompts are prefilled in chunks",
           .field = BASS_FIELD(engine.max_step_tokens),
           .min = 16,
           .max = 65536},
    Option{.name = "attention",
           .group = kMachine,
           .value_name = "fused|split-grouped|split|pad",
           .help =
               "how sequences of different lengths are attended to: fused reads what they share once; split takes each "
               "by itself (split-grouped: in one GPU launch); pad pads to the longest; equal results, to the bit",
           .field = BASS_FIELD(engine.attention)},
    Option{.name = "activations",
           .group = kMachine,
           .value_name = "int8|int16|bf16|w8a8|fp8",
           .help =
               "precision of activations that are multiplied with quantised weights; bf16, w8a8 and fp8: GPU only, by "
               "its library, with all weights in that form, so other results than the CPU's",
           .field = BASS_FIELD(engine.activations)},
    Option{.name = "kv_type",
           .group = kMachine,
           .value_name = "int16|int8|f16|bf16",
           .help =
               "numbers of the KV cache: int8 takes half the memory and is less exact; f16 and bf16: GPU only, whose "
               "attention then has half of the products, so other results than the CPU's",
           .field = BASS_FIELD(engine.kv)},
    Option{.name = "device",
           .group = kMachine,
           .value_name = "auto|cpu|cuda[:N]",
           .help = "where the models run; auto: a GPU if there is one",
           .field = BASS_FIELD(engine.device),
           .check = check_device_name},

    Option{.name = "json",
           .group = kOutput,
           .help = "print JSON: one object, benches one a line",
           .field = BASS_FIELD(json)},
    Option{.name = "save",
           .group = kOutput,
           .value_name = "FILE",
           .unset = "none",
           .help = "write what --json prints to this file, whatever is printed",
           .field = BASS_FIELD(save),
           .check = check_not_empty},
    Option{
        .name = "results",
        .group = kOutput,
        .value_name = "FILE",
        .unset = "none",
        .help =
            "append each prompt's result to this JSONL file as soon as it has ended (-: standard output), in place of "
            "printing samples; prompts whose results it has already are not run again",
        .field = BASS_FIELD(results),
        .check = check_not_empty},
    Option{.name = "quiet",
           .group = kOutput,
           .help = "print only the texts, the best first, each followed by a line feed (--json tells them apart)",
           .field = BASS_FIELD(quiet)},
    Option{.name = "show_drafts",
           .group = kOutput,
           .help = "show whether each token is an accepted draft, a correction, a bonus or regular (--json too)",
           .field = BASS_FIELD(show_drafts)},
    Option{.name = "explain_speculation",
           .group = kOutput,
           .help = "say where the time went, what drafts were expected to bring and brought, and whether they paid",
           .field = BASS_FIELD(explain_speculation)},
};

#undef BASS_FIELD

}  // namespace

std::span<const Option> options_table() { return kOptions; }

const Option* find_option(std::string_view name) {
  for (const Option& option : kOptions) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string_view group_title(OptionGroup group) {
  switch (group) {
    case kModel:
      return "Models";
    case kPrompt:
      return "Prompts";
    case kLimits:
      return "Lengths and limits";
    case kSampling:
      return "Sampling";
    case kSpeculation:
      return "Speculation";
    case kMachine:
      return "Machine";
    case kOutput:
      return "Output";
  }
  return "";
}

Status check_options(const GenerateOptions& options) {
  if (options.request.speculation.drafter == DrafterChoice::kModel && options.engine.draft_path.empty()) {
    return invalid_argument(
        "--drafter model: there is no draft model; give one with -d DRAFT.gguf, or use --drafter ngram");
  }
  if (options.request.min_tokens > options.request.max_tokens) {
    return invalid_argument(fmt::format("min_tokens {}: must be at most max_tokens, which is {}",
                                        options.request.min_tokens, options.request.max_tokens));
  }
  if (options.request.system.has_value() && !options.request.chat) {
    return invalid_argument("--system: has no place in a prompt without a chat template; add --chat");
  }
  if (options.results == "-" && options.json) {
    return invalid_argument(
        "--json: has no place beside --results -, which prints a line of JSON for each prompt; leave one out");
  }
  if (options.quiet && options.show_drafts) {
    return invalid_argument("--show-drafts: has no place beside --quiet, which prints only the texts; leave one out");
  }
  return ok_status();
}

std::string options_markdown() {
  std::string text;
  const OptionGroup* group = nullptr;
  for (const Option& option : kOptions) {
    if (group == nullptr || *group != option.group) {
      text += fmt::format("{}### {}\n\n| option | default | meaning |\n|---|---|---|\n", group == nullptr ? "" : "\n",
                          group_title(option.group));
    }
    group = &option.group;
    std::string flag = option.short_name != 0 ? fmt::format("`-{}`, ", option.short_name) : "";
    flag += fmt::format("`{}{}{}`", option_flag(option), option.value_name.empty() ? "" : " ", option.value_name);
    std::string meaning = std::string(option.help) + (option.range.empty() ? "" : fmt::format("; {}", option.range));
    std::string row = fmt::format("{} | {} | {}", flag, option_default(option), meaning);
    std::string escaped;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool is_separator = row[i] == '|' && i > 0 && row[i - 1] == ' ' && i + 1 < row.size() && row[i + 1] == ' ';
      escaped += row[i] == '|' && !is_separator ? std::string("\\|") : std::string(1, row[i]);
    }
    text += fmt::format("| {} |\n", escaped);
  }
  return text;
}

}  // namespace bass
