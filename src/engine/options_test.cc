#include "engine/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace bass {
namespace {

using ::testing::HasSubstr;

Status set(std::string_view name, std::vector<std::string> texts, GenerateOptions* options) {
  const Option* option = find_option(name);
  EXPECT_NE(option, nullptr) << name;
  return set_option(*option, texts, options);
}

std::string error_of(std::string_view name, const std::string& text) {
  GenerateOptions options;
  const Status status = set(name, {text}, &options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name << " " << text;
  return status.message();
}

TEST(OptionsTest, NamesAreUniqueAndEveryRowIsComplete) {
  std::set<std::string_view> names;
  for (const Option& option : options_table()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_FALSE(option_default(option).empty()) << option.name;
    const OptionKind kind = option_kind(option);
    EXPECT_EQ(option.value_name.empty(), kind == OptionKind::kFlag) << option.name;
    const bool is_number = kind == OptionKind::kInteger || kind == OptionKind::kNumber;
    EXPECT_TRUE(!is_number || !option.range.empty()) << option.name;
  }
}

TEST(OptionsTest, DefaultsAreTheContracts) {
  const auto shown = [](std::string_view name) { return option_default(*find_option(name)); };
  EXPECT_EQ(shown("n"), "1");
  EXPECT_EQ(shown("max_tokens"), "128");
  EXPECT_EQ(shown("temperature"), "0.8");
  EXPECT_EQ(shown("top_p"), "1");
  EXPECT_EQ(shown("top_k"), "0");
  EXPECT_EQ(shown("max_batch"), "32");
  EXPECT_EQ(shown("drafter"), "auto");
  EXPECT_EQ(shown("draft_length"), "goodput");
  EXPECT_EQ(shown("verify"), "auto");
  EXPECT_EQ(shown("chat"), "off");
}

TEST(OptionsTest, DefaultsPassTheirOwnChecks) {
  for (const Option& option : options_table()) {
    if (!option.unset.empty() || option_kind(option) == OptionKind::kFlag) continue;
    GenerateOptions options;
    EXPECT_TRUE(set_option(option, std::vector{option_default(option)}, &options).ok()) << option.name;
  }
}

TEST(OptionsTest, SetsEveryKind) {
  GenerateOptions options;
  EXPECT_TRUE(set("n", {"8"}, &options).ok());
  EXPECT_TRUE(set("temperature", {"0"}, &options).ok());
  EXPECT_TRUE(set("stop", {"a", "b"}, &options).ok());
  EXPECT_TRUE(set("logit_bias", {"5:-1.5", "7:2"}, &options).ok());
  EXPECT_TRUE(set("stop_token_ids", {"7", "0"}, &options).ok());
  EXPECT_TRUE(set("seed", {"18446744073709551615"}, &options).ok());
  EXPECT_TRUE(set("verify", {"match"}, &options).ok());
  EXPECT_TRUE(set("time_budget", {"2.5"}, &options).ok());
  EXPECT_TRUE(set("chat", {"true"}, &options).ok());
  EXPECT_EQ(options.request.n, 8);
  EXPECT_EQ(options.request.sampling.temperature, 0.0f);
  EXPECT_THAT(options.request.stop, ::testing::ElementsAre("a", "b"));
  EXPECT_THAT(options.request.sampling.logit_bias,
              ::testing::ElementsAre(::testing::Pair(5, -1.5f), ::testing::Pair(7, 2.f)));
  EXPECT_THAT(options.request.stop_token_ids, ::testing::ElementsAre(7, 0));
  EXPECT_EQ(options.request.seed, 18446744073709551615ull);
  EXPECT_EQ(options.request.speculation.verify, VerifyRule::kMatch);
  EXPECT_EQ(options.request.time_budget_s, 2.5);
  EXPECT_TRUE(options.request.chat);
}

TEST(OptionsTest, TheLastMentionCounts) {
  GenerateOptions options;
  EXPECT_TRUE(set("n", {"8", "2"}, &options).ok());
  EXPECT_EQ(options.request.n, 2);
}

TEST(OptionsTest, MessagesNameTheOptionTheValueAndTheRange) {
  EXPECT_EQ(error_of("temperature", "-1"), "--temperature -1: must be >= 0 (0 is greedy)");
  EXPECT_EQ(error_of("temperature", "nan"), "--temperature nan: must be a number >= 0 (0 is greedy)");
  EXPECT_EQ(error_of("temperature", "inf"), "--temperature inf: must be >= 0 (0 is greedy) and at most 1000000");
  EXPECT_EQ(error_of("temperature", "1e999"), "--temperature 1e999: must be >= 0 (0 is greedy) and at most 1000000");
  EXPECT_EQ(error_of("temperature", "warm"), "--temperature warm: must be a number >= 0 (0 is greedy)");
  EXPECT_EQ(error_of("top_p", "0"), "--top-p 0: must be above 0 and at most 1 (1 is off)");
  EXPECT_EQ(error_of("top_p", "1.1"), "--top-p 1.1: must be above 0 and at most 1 (1 is off)");
  EXPECT_EQ(error_of("n", "0"), "-n 0: must be from 1 to 65536");
  EXPECT_EQ(error_of("max_tokens", "0"), "--max-tokens 0: must be >= 1");
  EXPECT_EQ(error_of("max_tokens", "99999999999"), "--max-tokens 99999999999: must be >= 1 and at most 2147483647");
  EXPECT_EQ(error_of("max_tokens", "-99999999999"), "--max-tokens -99999999999: must be >= 1");
  EXPECT_EQ(error_of("n", "99999999999"), "-n 99999999999: must be from 1 to 65536");
  EXPECT_EQ(error_of("max_tokens", "1.5"), "--max-tokens 1.5: must be a whole number >= 1");
  EXPECT_EQ(error_of("context", "0"), "--context 0: must be >= 1");
  EXPECT_EQ(error_of("stop", ""), "--stop \"\": must not be empty");
  EXPECT_EQ(error_of("verify", "maybe"), "--verify maybe: must be auto, rejection, match or block");
  EXPECT_EQ(error_of("device", "cuda"), "--device cuda: this build has no CUDA; use --device cpu");
  EXPECT_EQ(error_of("device", "cuda:1"), "--device cuda:1: this build has no CUDA; use --device cpu");
  EXPECT_THAT(error_of("draft_length", "fixed:-1"), HasSubstr("--draft-length fixed:-1: "));
  EXPECT_THAT(error_of("stop", "ab\xff"), HasSubstr("--stop ab\uFFFD: invalid UTF-8 at byte 2 (0xFF)"));
  EXPECT_THAT(error_of("n", "1\n\x1b[2J"), HasSubstr("-n 1\uFFFD\uFFFD[2J: "));
  EXPECT_THAT(error_of("logit_bias", "x"), HasSubstr("must be ID:BIAS"));
  EXPECT_THAT(error_of("logit_bias", "1:nan"), HasSubstr("must be ID:BIAS"));
  EXPECT_THAT(error_of("seed", "-1"), HasSubstr("must be from 0"));
  EXPECT_THAT(error_of("time_budget", "0"), HasSubstr("must be > 0"));
}

TEST(OptionsTest, AValueThatVanishesInFloatIsOutOfRange) {
  EXPECT_THAT(error_of("top_p", "1e-60"), HasSubstr("must be above 0"));
}

TEST(OptionsTest, JsonValuesHaveTheOptionsType) {
  GenerateOptions options;
  const auto set_json = [&](std::string_view name, const nlohmann::json& value) {
    return set_option_from_json(*find_option(name), value, &options);
  };
  EXPECT_TRUE(set_json("n", 3).ok());
  EXPECT_TRUE(set_json("temperature", 1).ok());
  EXPECT_TRUE(set_json("chat", true).ok());
  EXPECT_TRUE(set_json("stop", {"x", "y"}).ok());
  EXPECT_TRUE(set_json("stop", "z").ok());
  EXPECT_TRUE(set_json("stop_token_ids", {1, 2}).ok());
  EXPECT_TRUE(set_json("stop_token_ids", {3}).ok());
  EXPECT_TRUE(set_json("logit_bias", {{"5", -2.5}}).ok());
  EXPECT_EQ(options.request.n, 3);
  EXPECT_THAT(options.request.stop, ::testing::ElementsAre("z"));
  EXPECT_THAT(options.request.stop_token_ids, ::testing::ElementsAre(3));
  EXPECT_THAT(options.request.sampling.logit_bias, ::testing::ElementsAre(::testing::Pair(5, -2.5f)));

  EXPECT_EQ(set_json("n", "3").message(), "\"n\" \"3\": must be a whole number");
  EXPECT_EQ(set_json("n", 0).message(), "\"n\" 0: must be from 1 to 65536");
  EXPECT_EQ(set_json("chat", 1).message(), "\"chat\" 1: must be true or false");
  EXPECT_EQ(set_json("stop", {""}).message(), "\"stop\" \"\": must not be empty");
  EXPECT_THAT(set_json("stop", {1}).message(), HasSubstr("a list of strings"));
  EXPECT_EQ(set_json("stop_token_ids", 5).message(), "\"stop_token_ids\" 5: must be a list of token ids");
  EXPECT_EQ(set_json("stop_token_ids", {-1}).message(), "\"stop_token_ids\" -1: must be a token id >= 0");
  EXPECT_THAT(set_json("seed", 1.5).message(), HasSubstr("must be a whole number"));
}

TEST(OptionsTest, PromptsAreGivenOnce) {
  GenerateOptions options;
  for (const auto& [name, flag] :
       {std::pair("prompt", "-p"), std::pair("file", "-f"), std::pair("prompts", "--prompts")}) {
    EXPECT_TRUE(set(name, {"a"}, &options).ok());
    EXPECT_THAT(set(name, {"a", "b"}, &options).message(), HasSubstr(std::string(flag) + ": is given 2 times"));
  }
}

TEST(OptionsTest, ANumberThatIsWholeButNotWrittenSoIsRefusedWithTheReason) {
  const std::string reason = "must be a whole number, written without point or exponent, from 1 to 65536";
  EXPECT_EQ(error_of("n", "2.0"), "-n 2.0: " + reason);
  EXPECT_EQ(error_of("n", "1e2"), "-n 1e2: " + reason);
  EXPECT_EQ(error_of("n", "2.5"), "-n 2.5: must be a whole number from 1 to 65536");
  EXPECT_EQ(error_of("n", "two"), "-n two: must be a whole number from 1 to 65536");
}

TEST(OptionsTest, JsonNullStandsForTheDefault) {
  GenerateOptions options;
  options.request.system = "Be";
  options.request.seed = 1;
  options.request.time_budget_s = 1;
  for (const char* name : {"system", "seed", "time_budget"}) {
    EXPECT_TRUE(set_option_from_json(*find_option(name), nullptr, &options).ok()) << name;
  }
  EXPECT_FALSE(options.request.system.has_value() || options.request.seed.has_value() || options.request.time_budget_s);
  options.request.n = 7;
  options.request.chat = true;
  options.request.stop = {"x"};
  options.request.sampling.temperature = 0;
  options.request.sampling.logit_bias = {{5, 1.0f}};
  options.request.speculation.drafter = DrafterChoice::kOff;
  options.request.speculation.draft_length = "off";
  const GenerateOptions defaults;
  for (const Option& option : options_table()) {
    EXPECT_TRUE(set_option_from_json(option, nullptr, &options).ok()) << option.name;
    EXPECT_EQ(option_value(option, options), option_value(option, defaults)) << option.name;
  }
  EXPECT_TRUE(options.request.stop.empty() && options.request.sampling.logit_bias.empty());
}

TEST(OptionsTest, QuietShowsNoDrafts) {
  GenerateOptions options;
  options.quiet = options.show_drafts = true;
  EXPECT_THAT(check_options(options).message(), HasSubstr("--show-drafts"));
  options.quiet = false;
  EXPECT_TRUE(check_options(options).ok());
}

TEST(OptionsTest, AtLeastSoManyTokensAreNotMoreThanAtMost) {
  GenerateOptions options;
  options.request.max_tokens = options.request.min_tokens = 8;
  EXPECT_TRUE(check_options(options).ok());
  options.request.min_tokens = 9;
  EXPECT_EQ(check_options(options).message(), "min_tokens 9: must be at most max_tokens, which is 8");
}

TEST(OptionsTest, AModelDrafterNeedsADraft) {
  GenerateOptions options;
  EXPECT_TRUE(check_options(options).ok());
  EXPECT_TRUE(set("drafter", {"model"}, &options).ok());
  EXPECT_THAT(check_options(options).message(), HasSubstr("-d DRAFT.gguf"));
  options.engine.draft_path = "draft.gguf";
  EXPECT_TRUE(check_options(options).ok());
}

TEST(OptionsTest, JsonOfAValueSetsIt) {
  const std::vector<std::pair<std::string_view, nlohmann::json>> values{
      {"chat", true},         {"n", 3},
      {"temperature", 0.25},  {"seed", 18446744073709551615U},
      {"stop", {"a", "b"}},   {"logit_bias", {{"7", -1.5}}},
      {"system", "be brief"}, {"drafter", "ngram"},
      {"verify", "auto"},     {"verify", "block"},
      {"kv_type", "int8"},    {"time_budget", nullptr},
      {"context", nullptr},   {"draft_length", "fixed:3"}};
  for (const auto& [name, value] : values) {
    const Option* option = find_option(name);
    GenerateOptions options;
    ASSERT_TRUE(set_option_from_json(*option, value, &options).ok()) << name;
    EXPECT_EQ(option_json(*option, options), value) << name;
  }
}

TEST(OptionsTest, ResultsOnStandardOutputAreAlone) {
  GenerateOptions options;
  options.results = "-";
  EXPECT_TRUE(check_options(options).ok());
  options.json = true;
  EXPECT_THAT(check_options(options).message(), HasSubstr("--json: has no place beside --results -"));
  options.results = "a.jsonl";
  EXPECT_TRUE(check_options(options).ok());
}

TEST(OptionsTest, MarkdownHasARowForEachOption) {
  const std::string text = options_markdown();
  for (const Option& option : options_table()) EXPECT_THAT(text, HasSubstr("`" + option_flag(option)));
  EXPECT_THAT(text, HasSubstr("| `--drafter auto\\|model\\|ngram\\|off` | auto |"));
}

}  // namespace
}  // namespace bass
