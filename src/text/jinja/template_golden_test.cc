// Against Jinja itself, with the settings of transformers: tests/goldens/make_chat_goldens.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

namespace bass::jinja {
namespace {

using Json = nlohmann::ordered_json;

class TemplateGoldenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream stream(BASS_TEST_DATA "/chat_goldens.json");
    goldens_ = Json::parse(stream);
    const auto now = goldens_.at("now").get<std::vector<int>>();
    std::tm local{.tm_sec = now[5],
                  .tm_min = now[4],
                  .tm_hour = now[3],
                  .tm_mday = now[2],
                  .tm_mon = now[1] - 1,
                  .tm_year = now[0] - 1900,
                  .tm_isdst = -1};
    now_ = std::mktime(&local);
  }

  [[nodiscard]] Result<std::string> render(const std::string& source, const Json& variables) const {
    const Result<Template> parsed = Template::parse(source);
    return parsed.ok() ? parsed.value().render(variables, now_) : parsed.status();
  }

  /// What Jinja renders is rendered, what it refuses is refused; where the template refused by itself, in its words.
  void check(const std::string& source, const Json& variables, const Json& expected, const std::string& what) const {
    const Result<std::string> text = render(source, variables);
    if (expected.contains("text")) {
      ASSERT_TRUE(text.ok()) << what << ": " << text.status().message();
      EXPECT_EQ(text.value(), expected.at("text").get<std::string>()) << what;
      return;
    }
    ASSERT_FALSE(text.ok()) << what << " gives " << text.value();
    EXPECT_THAT(text.status().message(), ::testing::MatchesRegex("line [0-9]+: (.|\n)+")) << what;
    EXPECT_THAT(text.status().message(), ::testing::EndsWith(expected.at("error").get<std::string>())) << what;
  }

  Json goldens_;
  std::time_t now_ = 0;
};

TEST_F(TemplateGoldenTest, RendersConversations) {
  const Json& conversations = goldens_.at("conversations");
  ASSERT_GE(goldens_.at("templates").size(), 25u);
  ASSERT_GE(conversations.size(), 10u);
  for (const Json& chat_template : goldens_.at("templates")) {
    for (size_t i = 0; i < conversations.size(); ++i) {
      Json variables = {{"add_generation_prompt", true}, {"tools", nullptr}, {"documents", nullptr}};
      variables.update(goldens_.at("special_tokens"));
      variables.update(conversations[i]);
      const std::string what =
          chat_template.at("name").get<std::string>() + ", " + variables.at("name").get<std::string>();
      variables.erase("name");
      check(chat_template.at("source").get<std::string>(), variables, chat_template.at("outcomes")[i], what);
    }
  }
}

TEST_F(TemplateGoldenTest, RendersSnippets) {
  ASSERT_GE(goldens_.at("snippets").size(), 150u);
  for (const Json& snippet : goldens_.at("snippets")) {
    const auto source = snippet.at("source").get<std::string>();
    check(source, goldens_.at("snippet_variables"), snippet, source);
  }
}

}  // namespace
}  // namespace bass::jinja
