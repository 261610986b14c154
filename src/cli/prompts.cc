#include "cli/prompts.h"

#include <fmt/format.h>

#include <limits>

#include "base/check.h"
#include "cli/bad_lines.h"
#include "cli/input.h"
#include "engine/messages.h"
#include "text/suggest.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

Status check_prompt(const std::string& origin, const std::string& prompt) {
  if (prompt.empty())
    return invalid_argument(fmt::format("{}: the prompt is empty; give at least one character", origin));
  return check_utf8(origin, prompt);
}

Status unknown_key(const std::string& key) {
  std::vector<std::string> known{"prompt", "messages", "prompt_tokens", "id"};
  for (const Option& option : options_table()) {
    if (option.is_per_request) known.emplace_back(option.name);
  }
  const Option* option = find_option(key);
  if (option != nullptr) {
    return invalid_argument(
        fmt::format("\"{}\" cannot differ between prompts; use {} on the command line", key, option_flag(*option)));
  }
  const std::string suggestion = nearest(key, known);
  const std::string hint =
      suggestion.empty() ? "`bass generate --help` lists the options" : fmt::format("did you mean \"{}\"?", suggestion);
  return invalid_argument(fmt::format("unknown key \"{}\"; {}", key, hint));
}

bool has(const Json& line, const char* key) { return line.contains(key) && !line[key].is_null(); }

/// A conversation to be answered, which takes the place of a prompt and of the system message.
Status read_conversation(const Json& line, Request* request) {
  for (const char* other : {"prompt", "chat", "system"}) {
    if (!has(line, other)) continue;
    return invalid_argument(
        fmt::format("\"{}\": has no place beside \"messages\", which are the whole conversation; "
                    "leave one out",
                    other));
  }
  BASS_ASSIGN_OR_RETURN(request->messages, read_messages(line["messages"]));
  request->chat = false;
  request->system.reset();
  return ok_status();
}

/// A prompt that is tokens already, without its text and without a chat template.
Status read_tokens(const Json& line, Request* request) {
  const Json& ids = line["prompt_tokens"];
  for (const char* other : {"prompt", "messages", "chat", "system"}) {
    if (!has(line, other) || line[other] == false) continue;
    return invalid_argument(
        fmt::format("\"{}\": has no place beside \"prompt_tokens\", which are the whole prompt; leave one out", other));
  }
  if (!ids.is_array() || ids.empty())
    return invalid_argument("\"prompt_tokens\": must be a list of token ids, not empty");
  for (const Json& id : ids) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<TokenId>::max()) {
      return invalid_argument(fmt::format("\"prompt_tokens\": {} is no token id", json_text(id)));
    }
    request->prompt_tokens.push_back(id.get<TokenId>());
  }
  request->chat = false;
  request->system.reset();
  return ok_status();
}

/// Fills a prompt from the object of its line; `options` are the command line's.
Status read_object(const Json& line, GenerateOptions options, PromptSpec* spec) {
  if (!line.is_object()) return invalid_argument("must be a JSON object like {\"prompt\": \"...\"}");
  const bool has_messages = has(line, "messages"), has_tokens = has(line, "prompt_tokens");
  if (has_tokens) BASS_RETURN_IF_ERROR(read_tokens(line, &options.request));
  if (has_messages) BASS_RETURN_IF_ERROR(read_conversation(line, &options.request));
  const bool is_read = has_messages || has_tokens;
  if (!is_read && !line.contains("prompt"))
    return invalid_argument("\"prompt\" is missing (or \"messages\", a conversation)");
  for (const auto& [key, value] : line.items()) {
    const Option* option = find_option(key);
    if (key == "id") {
      spec->id = value;
    } else if (key == "messages" || key == "prompt_tokens" || (key == "prompt" && is_read)) {
      continue;  // read above
    } else if (key == "prompt") {
      if (!value.is_string()) return invalid_argument("\"prompt\": must be a string");
      options.request.prompt = value.get<std::string>();
    } else if (option == nullptr || !option->is_per_request) {
      return unknown_key(key);
    } else {
      BASS_RETURN_IF_ERROR(set_option_from_json(*option, value, &options));
    }
  }
  // A line that switches chat off does without the command line's system message.
  if (!options.request.chat && !line.contains("system")) options.request.system.reset();
  if (options.request.system.has_value() && !options.request.chat) {
    return invalid_argument("\"system\": has no place in a prompt without a chat template; add \"chat\": true");
  }
  if (!is_read && options.request.prompt.empty())
    return invalid_argument("\"prompt\" is empty; give at least one character");
  spec->request = std::move(options.request);
  return check_options(options);
}

Result<std::vector<PromptSpec>> read_jsonl(const GenerateOptions& options) {
  const std::string name = input_name(options.prompts);
  BASS_ASSIGN_OR_RETURN(const std::string text, read_input(options.prompts));
  std::vector<PromptSpec> specs;
  BASS_RETURN_IF_ERROR(for_every_line(name, text, [&](const std::string& line, const std::string& origin) {
    PromptSpec spec;
    Status status = read_prompt(line, options, static_cast<int>(specs.size()), origin, &spec);
    if (status.ok()) specs.push_back(std::move(spec));
    return status;
  }));
  if (specs.empty())
    return invalid_argument(fmt::format("{}: holds no prompts; a line is {{\"prompt\": \"...\"}}", name));
  return specs;
}

}  // namespace

Status with_origin(const Status& status, const PromptSpec& spec) {
  if (status.ok() || !spec.is_line) return status;  // what is wrong need not be the prompt
  return {status.code(), fmt::format("{}: {}", spec.origin, status.message())};
}

Status read_prompt(const std::string& json, const GenerateOptions& options, int index, std::string origin,
                   PromptSpec* spec) {
  spec->index = index;
  spec->is_line = true;
  spec->origin = std::move(origin);
  BASS_RETURN_IF_ERROR(check_utf8("the line", json));
  BASS_ASSIGN_OR_RETURN(const Json object, parse_user_json(json));
  GenerateOptions own = options;
  if (own.request.seed.has_value()) *own.request.seed += static_cast<uint64_t>(index);
  return read_object(object, std::move(own), spec);
}

Result<std::vector<PromptSpec>> read_prompts(const GenerateOptions& options) {
  const int n_sources = int{options.prompt.has_value()} + int{!options.file.empty()} + int{!options.prompts.empty()};
  if (n_sources == 0)
    return invalid_argument("no prompt; give -p TEXT, -f FILE (-f - reads standard input) or --prompts FILE.jsonl");
  if (n_sources > 1) return invalid_argument("-p, -f and --prompts: give one of them");
  if (!options.prompts.empty()) return read_jsonl(options);
  PromptSpec spec;
  spec.request = options.request;
  spec.origin = options.prompt.has_value() ? "-p" : fmt::format("-f {}", options.file);
  BASS_ASSIGN_OR_RETURN(spec.request.prompt, read_text(options));
  BASS_RETURN_IF_ERROR(check_prompt(spec.origin, spec.request.prompt));
  return std::vector<PromptSpec>{std::move(spec)};
}

}  // namespace bass
