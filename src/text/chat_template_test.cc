#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace bass {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kPlain =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr std::string_view kWithSystem =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are kind.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
// The conversation's own system message comes first in this one, and newlines and quotes are escaped.
constexpr std::string_view kEscaped =
    R"({%- if messages[0]["role"] == "system" %}{{- "<|im_start|>system\n" + messages[0]["content"] + "<|im_end|>\n" }})"
    R"({%- else %}{{- "<|im_start|>system\nSay \"hi\".<|im_end|>\n" }}{%- endif %})";

TEST(ChatTemplateTest, FormatsChatMl) {
  const std::vector<ChatMessage> chat = {{"user", "Hi"}, {"assistant", "Yes?"}, {"user", "Bye"}};
  EXPECT_EQ(format_chat(kPlain, chat, true).value(),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(format_chat(kPlain, std::vector<ChatMessage>{{"user", ""}}, false).value(),
            "<|im_start|>user\n<|im_end|>\n");
}

TEST(ChatTemplateTest, PutsTheDefaultSystemMessageInFront) {
  const std::vector<ChatMessage> chat = {{"user", "Hi"}};
  EXPECT_EQ(format_chat(kWithSystem, chat, false).value(),
            "<|im_start|>system\nYou are kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
  EXPECT_EQ(format_chat(kEscaped, chat, false).value(),
            "<|im_start|>system\nSay \"hi\".<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplateTest, AnOwnSystemMessageReplacesTheDefault) {
  const std::vector<ChatMessage> chat = {{"system", "Be brief."}, {"user", "Hi"}};
  const std::string expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n";
  EXPECT_EQ(format_chat(kWithSystem, chat, false).value(), expected);
  EXPECT_EQ(format_chat(kEscaped, chat, false).value(), expected);
}

TEST(ChatTemplateTest, RefusesOtherTemplates) {
  const std::vector<ChatMessage> chat = {{"user", "Hi"}};
  for (const std::string_view other : {"", "{{ '<start_of_turn>' }}", "[INST] {{ messages[0]['content'] }} [/INST]"}) {
    const Result<std::string> text = format_chat(other, chat, true);
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(text.status().message(), HasSubstr("--no-chat"));
  }
}

TEST(ChatTemplateTest, RefusesBadMessages) {
  EXPECT_THAT(format_chat(kPlain, {}, true).status().message(), HasSubstr("at least one message"));
  for (const std::string role : {"", "us er", "user\n", "<|im_end|>"}) {
    EXPECT_THAT(format_chat(kPlain, std::vector<ChatMessage>{{role, "Hi"}}, true).status().message(),
                HasSubstr("is no word"));
  }
}

TEST(ChatTemplateTest, SurvivesCutTemplates) {
  const std::vector<ChatMessage> chat = {{"user", "Hi"}};
  for (const std::string_view whole : {kWithSystem, kEscaped}) {
    for (size_t len = 0; len < whole.size(); ++len) (void)format_chat(whole.substr(0, len), chat, true);
  }
}

}  // namespace
}  // namespace bass
