#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

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

TEST(ChatTemplateTest, LeavesTheAnswerOut) {
  const std::vector<ChatMessage> chat = {{"user", "Hi"}};
  EXPECT_EQ(format_chat({.chat_template = kChatMl, .add_generation_prompt = false}, chat).value(),
            "<|im_start|>user\nHi<|im_end|>\n");
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
