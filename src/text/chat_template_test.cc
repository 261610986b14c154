#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "support/growth.h"

namespace bass {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kChatMl =
    "{{ bos_token }}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TEST(ChatTemplateTest, GivesTheTemplateWhatTransformersGives) {
  const std::vector<ChatMessage> chat = {{"user", "Hi"}, {"assistant", "Yes?"}, {"user", ""}};
  EXPECT_EQ(format_chat({.chat_template = kChatMl, .bos_token = "<s>"}, chat).value(),
            "<s><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\n<|im_end|>\n"
            "<|im_start|>assistant\n");
  const std::string all =
      "{{ tools }} {{ documents }} {{ bos_token is defined }} {{ eos_token }} {{ messages }} {{ xml_tools is defined "
      "}}";
  EXPECT_EQ(format_chat({.chat_template = all, .eos_token = "</s>"}, {chat.data(), 1}).value(),
            "None None False </s> [{'role': 'user', 'content': 'Hi'}] False");
}

TEST(ChatTemplateTest, TakesVariablesOfTheRequest) {
  constexpr std::string_view kThinks =
      "{% for m in messages %}{{ m.content }}{% endfor %}|{% if enable_thinking is defined and not enable_thinking %}"
      "<think></think>{% endif %}{{ eos_token }}"
      "{% if documents %}{{ documents[0].title }}{% endif %}";
  const std::vector<ChatMessage> chat = {{"user", "Hi"}};
  EXPECT_EQ(format_chat({.chat_template = kThinks, .eos_token = "</s>"}, chat).value(), "Hi|</s>");
  EXPECT_EQ(format_chat({.chat_template = kThinks,
                         .eos_token = "</s>",
                         .variables = R"({"enable_thinking":false,"eos_token":"E","documents":[{"title":"T"}]})"},
                        chat)
                .value(),
            "Hi|<think></think>ET");
  EXPECT_TRUE(check_template_variables("{}").ok());
  for (const char* bad :
       {"[]", "1", "{", R"({"messages":[]})", R"({"tools":[]})", R"({"add_generation_prompt":false})"}) {
    EXPECT_FALSE(check_template_variables(bad).ok()) << bad;
  }
}

constexpr std::string_view kTools = R"([{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}])";
const ChatMessage kCall{
    .role = "assistant",
    .content = "Well:",
    .tool_calls =
        R"([{"id":"a1","type":"function","function":{"name":"add","arguments":{"a":2}}},{"function":{"name":"f","arguments":{}}}])"};
const ChatMessage kAnswer{.role = "tool", .content = "4", .tool_call_id = "a1", .name = "add"};

TEST(ChatTemplateTest, ToolsAreObjectsToATemplateThatKnowsThem) {
  constexpr std::string_view kKnows =
      "{{ tools | tojson }}|{{ tools[0].function.name }}|{% for m in messages %}{{ m.content }}{% if m.tool_calls %} "
      "calls {{ m.tool_calls[0].function.arguments | tojson }} {{ m.tool_calls | length }}{% endif %}"
      "{% if m.role == 'tool' %} of {{ m.tool_call_id }} {{ m.name }}{% endif %}|{% endfor %}";
  const std::vector<ChatMessage> chat = {{"user", "2+2?"}, kCall, kAnswer};
  EXPECT_EQ(format_chat({.chat_template = kKnows, .tools = kTools}, chat).value(),
            R"([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]|add|2+2?|)"
            R"(Well: calls {"a": 2} 2|4 of a1 add|)");
}

TEST(ChatTemplateTest, ToolsAreTextToATemplateThatDoesNot) {
  constexpr std::string_view kKnowsNot = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n\n{% endfor %}";
  const std::vector<ChatMessage> chat = {{"user", "2+2?"}, kCall, kAnswer};
  const std::string text = format_chat({.chat_template = kKnowsNot, .tools = kTools}, chat).value();
  EXPECT_THAT(text, ::testing::StartsWith("system: You may call functions."));
  EXPECT_THAT(text, HasSubstr("<tools>\n{\"name\":\"add\",\"parameters\":{\"type\":\"object\"}}\n</tools>"));
  EXPECT_THAT(text, ::testing::EndsWith("user: 2+2?\n\nassistant: Well:\n"
                                        "<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":2}}\n</tool_call>\n"
                                        "<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_call>\n\n"
                                        "user: <tool_response>\n4\n</tool_response>\n\n"));
  const std::vector<ChatMessage> with_system = {{"system", "Be brief."}, {"user", "2+2?"}};
  EXPECT_THAT(format_chat({.chat_template = kKnowsNot, .tools = kTools}, with_system).value(),
              ::testing::StartsWith("system: Be brief.\n\nYou may call functions."));
  EXPECT_EQ(format_chat({.chat_template = kKnowsNot}, with_system).value(), "system: Be brief.\n\nuser: 2+2?\n\n");
}

TEST(ChatTemplateTest, WhatToolsSayIsTheUsersWhereTheTemplateKnowsNoTools) {
  constexpr std::string_view kAlternates =
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}"
      "{% endif %}[{{ m.content }}]{% endfor %}";
  const std::vector<ChatMessage> chat = {{"user", "2+2?"}, kCall,           kAnswer,
                                         kAnswer,          {"user", "So?"}, {"assistant", "4"}};
  const std::string text = format_chat({.chat_template = kAlternates}, chat).value();
  EXPECT_THAT(text, HasSubstr("[<tool_response>\n4\n</tool_response>\n<tool_response>\n4\n</tool_response>\nSo?][4]"));
  // It takes no system message either: there the user's first words are behind the tools.
  EXPECT_THAT(format_chat({.chat_template = kAlternates, .tools = kTools}, chat).value(),
              ::testing::StartsWith("[You may call functions."));
}

TEST(ChatTemplateTest, WhatADeveloperSaysIsTheSystemsWhereTheTemplateKnowsNoDeveloper) {
  constexpr std::string_view kPrints =
      "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}";
  const std::vector<ChatMessage> chat = {{"developer", "In French."}, {"user", "Hi"}, {"developer", "Be brief."}};
  EXPECT_EQ(format_chat({.chat_template = kPrints}, chat).value(), "system: In French.\nuser: Hi\nsystem: Be brief.\n");
  const std::vector<ChatMessage> both = {{"system", "You are Max."}, {"developer", "In French."}, {"user", "Hi"}};
  EXPECT_EQ(format_chat({.chat_template = kPrints}, both).value(), "system: You are Max.\n\nIn French.\nuser: Hi\n");
  const std::string knows = std::string(kPrints) + "{% if messages[0].role == 'developer' %}!{% endif %}";
  EXPECT_EQ(format_chat({.chat_template = knows}, {chat.data(), 2}).value(), "developer: In French.\nuser: Hi\n!");
  // One that knows tools gets its messages another way.
  constexpr std::string_view kTooled =
      "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.tool_calls }}\n{% endfor %}";
  EXPECT_EQ(format_chat({.chat_template = kTooled}, {chat.data(), 1}).value(), "system: In French.\n");
}

TEST(ChatTemplateTest, ArgumentsAreTextsWhereObjectsCannotBePrinted) {
  constexpr std::string_view kAdds =
      "{% for m in messages %}{% if m.tool_calls and m.content is none %}{{ m.tool_calls[0]['function']['name'] + ' ' "
      "+ "
      "m.tool_calls[0]['function']['arguments'] }}{% endif %}{% endfor %}";
  ChatMessage silent = kCall;
  silent.content.clear();
  const std::vector<ChatMessage> chat = {{"user", "2+2?"}, silent};
  EXPECT_EQ(format_chat({.chat_template = kAdds}, chat).value(), R"(add {"a":2})");
  // As OpenAI's list has them.
  silent.tool_calls = R"([{"function":{"name":"add","arguments":"{\"a\": 2}"}}])";
  constexpr std::string_view kPrints =
      "{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}"
      "{% endif %}{% endfor %}";
  EXPECT_EQ(format_chat({.chat_template = kPrints}, {&silent, 1}).value(), R"({"a": 2})");
}

TEST(ChatTemplateTest, WhatNobodySaidIsNullWhereTheTemplateWantsThat) {
  ChatMessage silent = kCall;
  silent.content.clear();
  constexpr std::string_view kCalls = "{{ m.tool_calls[0].function.name }}{% endif %}{% endfor %}";
  const std::string unguarded =
      "{% for m in messages %}{% if m.tool_calls %}{% if 'x' in m.content %}x{% endif %}" + std::string(kCalls);
  EXPECT_EQ(format_chat({.chat_template = unguarded}, {&silent, 1}).value(), "add");
  const std::string prints = "{% for m in messages %}{% if m.tool_calls %}{{ m.content }}:" + std::string(kCalls);
  EXPECT_EQ(format_chat({.chat_template = prints}, {&silent, 1}).value(), ":add");
}

TEST(ChatTemplateTest, ResultsKeepWhoseTheyAre) {
  constexpr std::string_view kKnowsTheRole =
      "{% for m in messages %}{% if m.role == 'tool' %}[{{ m.name }} {{ m.tool_call_id }}: {{ m.content }}]{% endif "
      "%}{% endfor %}";
  EXPECT_EQ(format_chat({.chat_template = kKnowsTheRole}, {&kAnswer, 1}).value(), "[add a1: 4]");
}

TEST(ChatTemplateTest, ToolsAreToldWhereSystemMessagesAreDropped) {
  constexpr std::string_view kDrops =
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}";
  const std::vector<ChatMessage> chat = {{"system", "S"}, {"user", "Hi"}};
  for (const size_t first : {0, 1}) {
    EXPECT_THAT(format_chat({.chat_template = kDrops, .tools = kTools}, std::span(chat).subspan(first)).value(),
                ::testing::StartsWith("You may call functions."));
  }
}

TEST(ChatTemplateTest, ToolsThatATemplateOnlyMentionsAreToldInWords) {
  constexpr std::string_view kMentions =
      "{% for m in messages %}{% if 'tools' in m %}{{ m.tools }}{% endif %}{{ m.content }}|{% endfor %}";
  const std::vector<ChatMessage> chat = {{"user", "Hi"}};
  EXPECT_THAT(format_chat({.chat_template = kMentions, .tools = kTools}, chat).value(),
              HasSubstr("You may call functions."));
}

TEST(ChatTemplateTest, VariablesAreFewButMayBeLarge) {
  const auto object = [](int n_keys) {
    std::string text = "{";
    for (int i = 0; i < n_keys; ++i) text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
    return text + "}";
  };
  EXPECT_TRUE(check_template_variables(object(kMaxTemplateVariables)).ok());
  EXPECT_THAT(check_template_variables(object(kMaxTemplateVariables + 1)).message(), HasSubstr("at most 256"));
  const ChatMessage message{"user", "Hi"};
  const auto format = [&](int n_keys) {
    const std::string variables = "{\"large\":" + object(n_keys) + "}";
    EXPECT_TRUE(check_template_variables(variables).ok());
    EXPECT_TRUE(format_chat({.chat_template = kChatMl, .variables = variables}, {&message, 1}).ok());
  };
  EXPECT_LT(testing::growth(5000, format), testing::kMostGrowth);
}

// Others' JSON: the time that an object takes must not grow with the square of its keys.
TEST(ChatTemplateTest, LargeArgumentsTakeNoLongTime) {
  const auto format = [](int n_keys) {
    std::string arguments = "{";
    for (int i = 0; i < n_keys; ++i) arguments += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
    const ChatMessage call{.role = "assistant",
                           .content = "",
                           .tool_calls = R"([{"function":{"name":"f","arguments":)" + arguments + "}}}]"};
    EXPECT_TRUE(check_messages({&call, 1}).ok());
    EXPECT_TRUE(format_chat({.chat_template = kChatMl}, {&call, 1}).ok());
  };
  EXPECT_LT(testing::growth(5000, format), testing::kMostGrowth);
}

TEST(ChatTemplateTest, CallsHaveToBeAList) {
  for (const std::string& calls :
       {std::string("{}"), std::string("["), std::string("\xff"), std::string(200'000, '[')}) {
    const std::vector<ChatMessage> chat = {{.role = "assistant", .content = "", .tool_calls = calls}};
    EXPECT_FALSE(check_messages(chat).ok()) << calls.substr(0, 10);
  }
  EXPECT_TRUE(check_messages({&kCall, 1}).ok());
}

TEST(ChatTemplateTest, LeavesTheAnswerOut) {
  const std::vector<ChatMessage> chat = {{"user", "Hi"}};
  EXPECT_EQ(format_chat({.chat_template = kChatMl, .add_generation_prompt = false}, chat).value(),
            "<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplateTest, GoesOnWithTheLastMessage) {
  const auto continued = [](std::string_view chat_template, const std::string& said) {
    const std::vector<ChatMessage> chat = {{"user", "Hi"}, {"assistant", said}};
    return format_chat({.chat_template = chat_template, .continues_last = true}, chat);
  };
  constexpr std::string_view kTrims =
      "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}[/]{% endfor %}{% if add_generation_prompt "
      "%}[assistant]{% endif %}";
  EXPECT_EQ(continued(kChatMl, "Once ").value(), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nOnce ");
  EXPECT_EQ(continued(kChatMl, "\n Hi").value(), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n\n Hi");
  EXPECT_EQ(continued(kTrims, " Once ").value(), "[user]Hi[/][assistant]Once") << "as the template has it";
  for (const std::string text : {"|", "<", "end", "<|im_end", "assistant", "[/]"}) {  // which stand in marks, too
    EXPECT_EQ(continued(kChatMl, text).value(), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" + text);
    EXPECT_EQ(continued(kTrims, text).value(), "[user]Hi[/][assistant]" + text);
  }
  EXPECT_THAT(continued(kChatMl, " \n").status().message(), HasSubstr("no text to go on with"));
  EXPECT_THAT(continued("{{ messages[0].content }}", "Once").status().message(), HasSubstr("does not show"));
  const std::vector<ChatMessage> call = {{.role = "assistant", .content = "a", .tool_calls = kCall.tool_calls}};
  EXPECT_FALSE(format_chat({.chat_template = kChatMl, .continues_last = true}, call).ok());
}

TEST(ChatTemplateTest, ThoughtsGoToTheTemplate) {
  const std::vector<ChatMessage> chat = {{.role = "assistant", .content = "a", .reasoning_content = "hm"},
                                         {"user", "b"}};
  const std::string text = "{% for m in messages %}{{ m.reasoning_content or '-' }} {{ m.content }};{% endfor %}";
  EXPECT_EQ(format_chat({.chat_template = text}, chat).value(), "hm a;- b;");
  EXPECT_EQ(format_chat({.chat_template = text + "{{ messages[0].tool_calls }}"}, chat).value(), "hm a;- b;");
}

TEST(ChatTemplateTest, SaysWhatIsWrong) {
  const std::vector<ChatMessage> chat = {{"user", "Hi"}};
  const Result<std::string> none = format_chat({.chat_template = ""}, chat);
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(none.status().message(), HasSubstr("--no-chat"));
  EXPECT_THAT(format_chat({.chat_template = kChatMl}, {}).status().message(), HasSubstr("at least one message"));
  EXPECT_EQ(format_chat({.chat_template = "\n{{ raise_exception('no users') }}"}, chat).status().message(),
            "the model's chat template refuses the messages: line 2: no users");
  EXPECT_THAT(format_chat({.chat_template = "{% if %}"}, chat).status().message(), HasSubstr("line 1"));
}

}  // namespace
}  // namespace bass
