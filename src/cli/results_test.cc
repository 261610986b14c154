#include "cli/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/report.h"

namespace bass {
namespace {

ChoiceResult make_choice(int index, FinishReason reason, const std::vector<float>& logprobs, double finished_at_s) {
  ChoiceResult choice;
  choice.index = index;
  choice.finish_reason = reason;
  for (const float logprob : logprobs) choice.add({7, logprob, TokenOrigin::kRegular});
  choice.stats.decode_s = 0.01 * static_cast<double>(logprobs.size() * static_cast<size_t>(index + 1));
  choice.stats.finished_at_s = finished_at_s;
  return choice;
}

GenerationResult make_result() {
  GenerationResult result;
  result.model = "m.gguf";
  PromptResult prompt;
  prompt.n_prompt_tokens = 5;
  prompt.choices.push_back(make_choice(0, FinishReason::kDeadline, {-0.1f}, 3));
  prompt.choices.push_back(make_choice(1, FinishReason::kStop, {-1, -2}, 1));
  prompt.choices.push_back(make_choice(2, FinishReason::kLength, {-1, -1}, 2));
  prompt.choices.push_back(make_choice(3, FinishReason::kStop, {}, 0.5));
  rank_choices(&prompt);
  result.prompts.push_back(std::move(prompt));
  result.total_s = 2;
  return result;
}

nlohmann::ordered_json json_of(const GenerationResult& result, bool shows_origins = false,
                               const nlohmann::ordered_json& explanation = nullptr) {
  std::string text;
  EXPECT_TRUE(give_result_json(result, shows_origins, explanation, [&](std::string_view piece) {
                text += piece;
                return ok_status();
              }).ok());
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  return nlohmann::ordered_json::parse(text);
}

TEST(ResultsTest, RanksFinishedBeforeUnfinishedThenByMeanLogprob) {
  const GenerationResult result = make_result();
  std::vector<int> order;
  for (const ChoiceResult* choice : ranked_choices(result.prompts[0])) order.push_back(choice->index);
  EXPECT_THAT(order, ::testing::ElementsAre(2, 1, 3, 0));
  EXPECT_EQ(result.prompts[0].choices[1].mean_logprob, -1.5);
  EXPECT_EQ(result.prompts[0].choices[3].mean_logprob, std::nullopt);
}

TEST(ResultsTest, EqualSamplesKeepTheirOrder) {
  PromptResult prompt;
  for (int i = 0; i < 20; ++i) prompt.choices.push_back(make_choice(i, FinishReason::kStop, {-1}, 1));
  rank_choices(&prompt);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(prompt.choices[static_cast<size_t>(i)].rank, i + 1);
}

// Each finishes so many seconds after its own prompt was submitted.
TEST(ResultsTest, TheFirstOfSeveralPromptsIsTheFirstByTheClock) {
  GenerationResult result;
  for (const double submitted_s : {2.0, 0.0}) {
    PromptResult& prompt = result.prompts.emplace_back();
    prompt.submitted_s = submitted_s;
    const int index = submitted_s > 0 ? 4 : 0;  // takes 50 ms a token, or 10
    prompt.choices.push_back(make_choice(index, FinishReason::kStop, {-1}, submitted_s > 0 ? 1 : 1.5));
  }
  const LatencySummary latency = summarise(result).latency;
  EXPECT_NEAR(*latency.first_ms, 10, 1e-9);
  EXPECT_NEAR(*latency.last_ms, 50, 1e-9);
}

TEST(ResultsTest, SumsUp) {
  GenerationResult result = make_result();
  SpeculationStats& stats = result.prompts[0].choices[1].stats.speculation;
  stats.rounds = 2;
  stats.drafted = 8;
  stats.accepted = 6;
  stats.draft_length_histogram[4] = 2;
  const Summary summary = summarise(result);
  EXPECT_EQ(summary.prompt_tokens, 5);
  EXPECT_EQ(summary.completion_tokens, 5);
  EXPECT_EQ(summary.tokens_per_s, 2.5);
  EXPECT_EQ(summary.acceptance_rate, 0.75);
  EXPECT_EQ(summary.mean_accepted_len, 3);
  EXPECT_EQ(summary.tokens_per_round, 4);
  EXPECT_EQ(summary.longest_draft, 4);
  EXPECT_NEAR(*summary.latency.first_ms, 20, 1e-9);  // choice 1; choice 3 has no tokens
  EXPECT_NEAR(*summary.latency.last_ms, 10, 1e-9);   // choice 0
  EXPECT_NEAR(*summary.latency.all_ms, 20, 1e-9);    // (10 + 20 + 30) / 3
}

TEST(ResultsTest, AnEmptyRunHasNoRates) {
  const Summary summary = summarise(GenerationResult{});
  EXPECT_EQ(summary.acceptance_rate, std::nullopt);
  EXPECT_EQ(summary.tokens_per_round, std::nullopt);
  EXPECT_EQ(summary.latency.all_ms, std::nullopt);
  EXPECT_EQ(summary.tokens_per_s, 0);
}

TEST(ResultsTest, JsonHasNullsWhereThereIsNothing) {
  const auto json = json_of(make_result());
  EXPECT_TRUE(json["draft"].is_null());
  EXPECT_FALSE(json["prompts"][0].contains("id"));
  EXPECT_TRUE(json["prompts"][0]["choices"][3]["mean_logprob"].is_null());
  EXPECT_EQ(json["prompts"][0]["choices"][0]["finish_reason"], "deadline");
  EXPECT_TRUE(json["speculation"]["acceptance_rate"].is_null());
  EXPECT_EQ(json["speculation"]["draft_length_histogram"].dump(), "{\"0\":0}");
  EXPECT_EQ(json["usage"]["total_tokens"], 10);
  EXPECT_FALSE(json["prompts"][0]["choices"][0].contains("origins")) << "nobody asked";
}

TEST(ResultsTest, JsonComesInPiecesUntilOneIsNotTaken) {
  GenerationResult result;
  EXPECT_EQ(json_of(result)["prompts"].dump(), "[]");
  result.prompts.resize(3);
  const auto json = json_of(result, false, {{"conclusion", "x"}});
  EXPECT_EQ(json["prompts"].size(), 3);
  EXPECT_EQ(json["speculation"]["explanation"]["conclusion"], "x");
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre("model", "draft", "prompts", "usage", "timing", "speculation"));
  int n_pieces = 0;
  const Status status = give_result_json(result, false, nullptr, [&](std::string_view) {
    return ++n_pieces == 4 ? resource_exhausted("full") : ok_status();
  });
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(n_pieces, 4);
}

TEST(ResultsTest, JsonSaysWhereTokensCameFrom) {
  GenerationResult result = make_result();
  result.prompts[0].choices[1].tokens[0].origin = TokenOrigin::kAccepted;
  result.prompts[0].choices[1].tokens[1].origin = TokenOrigin::kCorrection;
  result.prompts[0].choices[2].tokens[0].origin = TokenOrigin::kBonus;
  const auto json = json_of(result, /*shows_origins=*/true);
  const auto& choices = json["prompts"][0]["choices"];
  EXPECT_EQ(choices[0]["origins"].dump(), R"(["regular"])");
  EXPECT_EQ(choices[1]["origins"].dump(), R"(["accepted","correction"])");
  EXPECT_EQ(choices[2]["origins"].dump(), R"(["bonus","regular"])");
  EXPECT_EQ(choices[3]["origins"].dump(), "[]");
}

}  // namespace
}  // namespace bass
