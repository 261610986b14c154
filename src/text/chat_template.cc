#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/chat_tools.h"
#include "text/jinja/template.h"
#include "text/user_json.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSpaces = " \t\r\n\v\f";

/// One conversation, which the template may have to be told of in several ways.
class ChatRenderer {
 public:
  ChatRenderer(const ChatFormat& format, const jinja::Template& chat_template, const Json& tools,
               const Json& more_variables)
      : format_(format), template_(chat_template), tools_(tools), more_variables_(more_variables) {}

  Result<std::string> render(std::span<const ChatMessage> messages) const {
    const auto [list, text] = tell(messages);
    if (tools_.is_null()) return text;
    const Result<std::string> without = print(list, nullptr);
    return are_same(text, without) ? print_words(list, without) : text;
  }

 private:
  struct Told {
    Json messages;
    Result<std::string> text;
  };
  /// As the template prints most of the calls; what it says against them first, where it prints them in no way.
  [[nodiscard]] Told tell(std::span<const ChatMessage> messages) const {
    const bool has_calls = std::ranges::any_of(messages, [](const auto& m) { return !m.tool_calls.empty(); });
    std::optional<Told> best;
    int64_t n_missing = 0;
    for (const CallStyle style : {CallStyle{}, CallStyle{.has_null = true}, CallStyle{.has_texts = true},
                                  CallStyle{.has_texts = true, .has_null = true}}) {
      Json list = template_messages(format_.chat_template, messages, style);
      Result<std::string> text = print(list, tools_);
      const int64_t n = text.ok() ? n_calls_missing(text.value(), messages) : std::numeric_limits<int64_t>::max();
      const bool is_better = !best || n < n_missing;
      if (is_better) best = Told{std::move(list), std::move(text)};
      if (is_better) n_missing = n;
      if (n_missing == 0 || !has_calls) break;
    }
    return std::move(*best);
  }

  static bool are_same(const Result<std::string>& a, const Result<std::string>& b) {
    return a.ok() && b.ok() && a.value() == b.value();
  }

  /// It may take no system message, or print none. without: what it prints of the messages alone
  [[nodiscard]] Result<std::string> print_words(const Json& list, const Result<std::string>& without) const {
    Result<std::string> text = print(with_tools_told(list, tools_, ToolsPlace::kSystem), nullptr);
    if (text.ok() && !are_same(text, without)) return text;
    if (!text.ok() && list.front()["role"] == "system") return text;
    return print(with_tools_told(list, tools_, ToolsPlace::kUser), nullptr);
  }

  [[nodiscard]] Result<std::string> print(const Json& messages, const Json& tools) const {
    Json variables = {{"messages", messages},
                      {"tools", tools},
                      {"documents", nullptr},
                      {"add_generation_prompt", format_.add_generation_prompt && !format_.continues_last}};
    if (format_.bos_token.has_value()) variables["bos_token"] = *format_.bos_token;
    if (format_.eos_token.has_value()) variables["eos_token"] = *format_.eos_token;
    variables.update(more_variables_);
    return template_.render(variables, now_);
  }

  const ChatFormat& format_;
  const jinja::Template& template_;
  const Json& tools_;
  const Json& more_variables_;
  std::time_t now_ = std::time(nullptr);
};

Result<std::string> render(const ChatFormat& format, std::span<const ChatMessage> messages) {
  BASS_ASSIGN_OR_RETURN(const jinja::Template chat_template, jinja::Template::parse(format.chat_template));
  Json tools;
  if (!format.tools.empty()) {
    BASS_ASSIGN_OR_RETURN(tools, parse_user_json(format.tools));
  }
  Json more_variables = Json::object();
  if (!format.variables.empty()) {
    BASS_ASSIGN_OR_RETURN(more_variables, parse_user_json(format.variables));
  }
  return ChatRenderer(format, chat_template, tools, more_variables).render(messages);
}

Status check_calls(const std::string& calls) {
  if (calls.empty()) return ok_status();
  const Result<Json> list = parse_user_json(calls);
  if (!list.ok()) return invalid_argument(fmt::format("a message's tool_calls: {}", list.status().message()));
  return list.value().is_array() ? ok_status()
                                 : invalid_argument("a message's tool_calls: must be a list, as OpenAI's");
}

/// Behind the last message's text, to be found again in what the template prints. The blank tells whether it trims.
constexpr std::string_view kTextEnd = "<bass: here the text goes on> ";

/// Error: it has no text to go on with.
Result<std::vector<ChatMessage>> with_end_marked(std::span<const ChatMessage> messages) {
  std::vector<ChatMessage> marked(messages.begin(), messages.end());
  ChatMessage& last = marked.back();
  const bool has_text = last.content.find_first_not_of(kSpaces) != last.content.npos;
  if (!has_text || !last.tool_calls.empty())
    return invalid_argument("continue_final_message: the last message has no text to go on with");
  last.content += kTextEnd;
  return marked;
}

/// What a template printed, up to the end of the last message's text, whose blanks at the end go where it trims.
Result<std::string> up_to_end_of_text(std::string printed) {
  const size_t at = printed.rfind(kTextEnd.substr(0, kTextEnd.size() - 1));
  if (at == printed.npos)
    return invalid_argument("continue_final_message: the model's chat template does not show the last message's text");
  const bool trims = !std::string_view(printed).substr(at).starts_with(kTextEnd);
  printed.resize(at);
  if (trims) printed.resize(printed.find_last_not_of(kSpaces) + 1);
  return printed;
}

}  // namespace

Status check_template_variables(std::string_view json) {
  BASS_ASSIGN_OR_RETURN(const Json variables, parse_user_json(json));
  if (!variables.is_object())
    return invalid_argument("must be an object of variables, like {\"enable_thinking\": false}");
  if (variables.size() > kMaxTemplateVariables)
    return invalid_argument(fmt::format("has {} variables; give at most {}", variables.size(), kMaxTemplateVariables));
  for (const char* const name : {"messages", "tools", "add_generation_prompt"}) {
    if (variables.contains(name))
      return invalid_argument(fmt::format("\"{}\": is what the request says itself; leave it out", name));
  }
  return ok_status();
}

ChatFormat chat_format(const Tokenizer& tokenizer) {
  ChatFormat format{.chat_template = tokenizer.chat_template()};
  if (tokenizer.bos_id()) format.bos_token = tokenizer.token_bytes(*tokenizer.bos_id());
  if (tokenizer.eos_id()) format.eos_token = tokenizer.token_bytes(*tokenizer.eos_id());
  return format;
}

std::vector<ChatMessage> conversation_of(const std::optional<std::string>& system, std::string message) {
  std::vector<ChatMessage> messages;
  if (system) messages.push_back({"system", *system});
  messages.push_back({"user", std::move(message)});
  return messages;
}

Status check_messages(std::span<const ChatMessage> messages) {
  for (const ChatMessage& message : messages) {
    const std::string_view texts[] = {message.role,         message.content, message.tool_calls,
                                      message.tool_call_id, message.name,    message.reasoning_content};
    if (!std::ranges::all_of(texts, is_valid_utf8))
      return invalid_argument("a message is not valid UTF-8; convert it first");
    BASS_RETURN_IF_ERROR(check_calls(message.tool_calls));
  }
  return ok_status();
}

Result<std::string> format_chat(const ChatFormat& format, std::span<const ChatMessage> messages) {
  if (format.chat_template.empty()) {
    return invalid_argument("the model has no chat template; `bass generate --no-chat` continues a text as it is");
  }
  if (messages.empty()) return invalid_argument("a chat needs at least one message");
  std::vector<ChatMessage> marked;
  if (format.continues_last) {
    BASS_ASSIGN_OR_RETURN(marked, with_end_marked(messages));
  }
  Result<std::string> text = render(format, format.continues_last ? marked : messages);
  if (text.ok()) return format.continues_last ? up_to_end_of_text(std::move(text).value()) : text;
  return invalid_argument(fmt::format("the model's chat template refuses the messages: {}", text.status().message()));
}

}  // namespace bass
