// The one table of options: name, type, default, range and help of everything that a run can be told. It drives the
// command line, the lines of a prompts file (and any other JSON that asks for text) and the documentation.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bass/engine.h"
#include "bass/request.h"

namespace bass {

/// Everything that `bass generate` can be told.
struct GenerateOptions {
  EngineOptions engine;
  bool is_draft_missing = false;      ///< the draft that comes with the model would be used, but is in no folder
  bool is_draft_shipped = false;      ///< nobody named engine.draft_path: the run goes on without it if it must
  Request request;                    ///< what every prompt starts from
  std::optional<std::string> prompt;  ///< the prompt itself, or
  std::string file;                   ///< a file that holds one prompt ("-": standard input), or
  std::string prompts;                ///< a JSONL file of prompts ("-": standard input)
  bool json = false;
  std::string save;     ///< file that gets the JSON object too
  std::string results;  ///< file that gets a line for each prompt that has ended ("-": standard output)
  bool quiet = false;
  bool show_drafts = false;
  bool explain_speculation = false;
};

enum class OptionGroup : uint8_t { kModel, kPrompt, kLimits, kSampling, kSpeculation, kMachine, kOutput };
std::string_view group_title(OptionGroup group);

/// Where an option's value lives. The alternative is the option's type.
using OptionField =
    std::variant<bool*, int*, float*, std::string*, std::optional<int>*, std::optional<int64_t>*,
                 std::optional<uint64_t>*, std::optional<double>*, std::optional<std::string>*,
                 std::vector<std::string>*, std::vector<TokenId>*, std::vector<std::pair<TokenId, float>>*,
                 DrafterChoice*, std::optional<VerifyRule>*, AttentionKind*, ActivationKind*, KvKind*>;

/// How a value is written: on the command line, and as JSON.
enum class OptionKind : uint8_t { kFlag, kInteger, kNumber, kText, kTextList, kTokenList, kBiasList, kJson };

struct Option {
  std::string_view name;  ///< snake_case, as in JSON; "--max-tokens" on the command line
  char short_name = 0;    ///< 'm' for "-m"; 0: none
  OptionGroup group = OptionGroup::kModel;
  bool is_per_request = false;  ///< may stand in a line of a prompts file
  bool is_json = false;         ///< a text that is JSON itself: as JSON, a string or what the string says
  bool is_once = false;         ///< naming it twice is a mistake and no change of mind
  std::string_view value_name;  ///< "N", "TEXT"; the choices of a choice
  std::string_view unset;       ///< what an option without a value means; empty: the field's default is shown
  std::string_view range;       ///< completes "must be ..."
  std::string_view help;
  OptionField (*field)(GenerateOptions&) = nullptr;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool is_min_excluded = false;
  Status (*check)(std::string_view text) = nullptr;  ///< of a text, or of each text of a list
};

inline constexpr float kMaxBias = 1e6F;  ///< of a logit_bias, in both directions

/// All options, in the order of the help text. Names are unique.
std::span<const Option> options_table();
/// nullptr if there is none of this name (snake_case).
const Option* find_option(std::string_view name);

OptionKind option_kind(const Option& option);
/// "--max-tokens"; "-n" where the name is one letter.
std::string option_flag(const Option& option);
/// The default as the user would write it, or what its absence means.
std::string option_default(const Option& option);
/// The value as the user would write it; "" if there is none, or a list.
std::string option_value(const Option& option, const GenerateOptions& options);

/// "rejection", "match" or "block"
std::string verify_rule_name(VerifyRule rule);
/// "int16", "int8", "f16" or "bf16"
std::string kv_type_name(KvKind kind);

/// The value as `set_option_from_json` takes it; null if there is none.
nlohmann::json option_json(const Option& option, const GenerateOptions& options);

/// Sets an option from the command line: one text a mention (a flag: "true" or "false"); the last mention counts,
/// except in lists, and several of an `is_once` option are an error. Error (kInvalidArgument): "--temperature -1: must
/// be >= 0 (0 is greedy)".
Status set_option(const Option& option, std::span<const std::string> texts, GenerateOptions* options);

/// Sets an option from JSON; the type must be the option's, or null, which stands for its default. Error:
/// "\"temperature\" -1: must be ...".
Status set_option_from_json(const Option& option, const nlohmann::ordered_json& value, GenerateOptions* options);

/// Whether a number is in an option's range; NaN is in none. Error (kInvalidArgument): "must be from 1 to 20".
Status check_number(const Option& option, double value);

/// What no single option can see, such as --drafter model without a draft.
Status check_options(const GenerateOptions& options);

/// The table as Markdown, for the documentation.
std::string options_markdown();

}  // namespace bass
