#include "server/api_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/suggest.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

// What clients send about themselves, about how an answer is to be kept and paid, or about what this model has not.
constexpr std::array<std::string_view, 13> kIgnored{"user",
                                                    "metadata",
                                                    "store",
                                                    "service_tier",
                                                    "safety_identifier",
                                                    "prompt_cache_key",
                                                    "prompt_cache_retention",
                                                    "parallel_tool_calls",
                                                    "stream_options",  // read with "stream"
                                                    "verbosity",
                                                    "reasoning_effort",
                                                    "cache_prompt",
                                                    "priority"};

/// A key that is only understood when it asks for nothing.
struct Unsupported {
  std::string_view key;
  std::string_view harmless;  // a JSON list of values, besides null
  std::string_view what = "this is not supported here";
};
constexpr std::string_view kOfChats = "only chats have tools (/v1/chat/completions)";
constexpr std::string_view kOfTemplates = "only chats have a template (/v1/chat/completions)";
constexpr std::string_view kOldTools = "it is \"tools\" and \"tool_choice\" here";
constexpr std::string_view kTextAlone = "only text is supported here";
constexpr std::array<Unsupported, 21> kUnsupported{{{"tools", "[[]]", kOfChats},
                                                    {"tool_choice", R"(["none", "auto"])", kOfChats},
                                                    {"functions", "[[]]", kOldTools},
                                                    {"function_call", R"(["none", "auto"])", kOldTools},
                                                    {"modalities", R"([["text"]])", kTextAlone},
                                                    {"audio", "[]", kTextAlone},
                                                    {"prediction", "[]"},
                                                    {"web_search_options", "[]"},
                                                    {"suffix", R"([""])"},
                                                    {"chat", "[]"},
                                                    {"echo", "[false]", "only completions echo their prompt"},
                                                    {"skip_special_tokens", "[true]"},
                                                    {"spaces_between_special_tokens", "[true, false]"},
                                                    {"add_generation_prompt", "[true]"},
                                                    {"continue_final_message", "[false]", kOfTemplates},
                                                    {"separate_reasoning", "[true, false]"},
                                                    {"include_stop_str_in_output", "[false]"},
                                                    {"chat_template_kwargs", "[{}]", kOfTemplates},
                                                    {"use_beam_search", "[false]"},
                                                    {"length_penalty", "[1, 1.0]"},
                                                    {"bad_words", "[[]]"}}};

// What other servers call what is here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOtherNames{
    {{"repeat_penalty", "repetition_penalty"},
     {"max_new_tokens", "max_tokens"},
     {"n_predict", "max_tokens"},
     {"num_predict", "max_tokens"},
     {"stop_sequences", "stop"},
     {"n_probs", "logprobs"}}};

}  // namespace

std::string shown(const Json& value) {
  constexpr size_t kMax = 80;
  std::string text = value.dump();
  if (text.size() <= kMax) return text;
  text.resize(kMax);
  return to_valid_utf8(text) + "...";
}

std::optional<Status> check_other_key(std::string_view key, const Json& value) {
  if (std::ranges::find(kIgnored, key) != kIgnored.end()) return ok_status();
  const auto* known = std::ranges::find(kUnsupported, key, &Unsupported::key);
  if (known == kUnsupported.end()) return std::nullopt;
  const Json harmless = Json::parse(known->harmless);
  if (std::ranges::find(harmless, value) != harmless.end()) return ok_status();
  return invalid_argument(fmt::format("\"{}\" {}: {}; leave it out", key, shown(value), known->what));
}

Status unknown_key(std::string_view key, std::span<const std::string> known) {
  for (const auto& [other, here] : kOtherNames) {
    if (key == other) return invalid_argument(fmt::format("\"{}\": unknown key; it is \"{}\" here", key, here));
  }
  constexpr size_t kMaxLen = 64;  // none is nearly as long
  const std::string meant = key.size() > kMaxLen ? "" : nearest(key, known);
  return invalid_argument(fmt::format("{}: unknown key; {}", shown(std::string(key)),
                                      meant.empty() ? "leave it out (docs/server.md lists those that there are)"
                                                    : fmt::format("did you mean \"{}\"? If not, leave it out", meant)));
}

}  // namespace bass
