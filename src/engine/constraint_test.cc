// Answers that follow a grammar: they fit it, and are drawn as regular decoding would, whoever drafts.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/sampling/chi_square.h"
#include "support/engine_run.h"

namespace bass::testing {
namespace {

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 6},
  "kind": {"enum": ["cat", "dog", "dodo"]},
  "legs": {"type": "integer", "minimum": 0, "maximum": 12},
  "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4}},
  "required": ["name", "kind", "legs", "tags"]})";

std::unique_ptr<Engine> load_tiny(int max_batch = 8, const char* draft = "draft_padded") {
  EngineOptions options;
  options.model_path = tiny_model(kTinyModel);
  if (draft != nullptr) options.draft_path = tiny_model(draft);
  options.n_threads = 2;
  options.max_batch = max_batch;
  options.max_step_tokens = 24;
  return load_engine(options);
}

Request request_of(const std::string& prompt, int n) {
  Request request;
  request.prompt = prompt;
  request.n = n;
  request.max_tokens = 150;
  request.seed = 5;
  request.sampling.temperature = 1.0f;
  request.speculation.draft_length = "fixed:4";
  return request;
}

Request json_request(const std::string& prompt, int n) {
  Request request = request_of(prompt, n);
  request.json_schema = kSchema;
  return request;
}

void expect_fits(const std::string& text) {
  const nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(value.is_object()) << text;
  ASSERT_EQ(value.size(), 4u) << text;
  EXPECT_TRUE(value["name"].is_string()) << text;
  EXPECT_TRUE(value["kind"] == "cat" || value["kind"] == "dog" || value["kind"] == "dodo") << text;
  ASSERT_TRUE(value["legs"].is_number_integer()) << text;
  EXPECT_TRUE(value["legs"] >= 0 && value["legs"] <= 12) << text;
  ASSERT_TRUE(value["tags"].is_array() && !value["tags"].empty() && value["tags"].size() <= 4) << text;
  for (const auto& tag : value["tags"]) EXPECT_TRUE(tag.is_boolean()) << text;
}

// A model of random weights would hardly ever say such a text by itself.
TEST(Constraint, JsonAnswersFitTheirSchema) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  for (const VerifyRule rule : {VerifyRule::kMatch, VerifyRule::kRejection, VerifyRule::kBlock}) {
    for (const DrafterChoice drafter : {DrafterChoice::kAuto, DrafterChoice::kModel, DrafterChoice::kNgram}) {
      Request request = json_request("{\"name\": \"", 12);
      request.speculation.verify = rule;
      request.speculation.drafter = drafter;
      for (const ChoiceResult& choice : run_one(*engine, request).choices) {
        EXPECT_EQ(choice.reason, FinishReason::kStop) << choice.text;
        expect_fits(choice.text);
      }
    }
  }
  EXPECT_GT(engine->stats().speculation.accepted, 100) << "hardly anything was drafted: the test proves little";
}

TEST(Constraint, DraftsChangeNothingOfASeededOrGreedyAnswer) {
  const auto regular = load_tiny(8, nullptr);
  const auto drafting = load_tiny();
  ASSERT_TRUE(regular != nullptr && drafting != nullptr);
  std::vector<Request> requests;
  for (const char* prompt : {"Pets: ", "{\"kind\": \"dodo\", ", "I think"}) {
    requests.push_back(json_request(prompt, 4));
    requests.push_back(json_request(prompt, 1));
    requests.back().sampling.temperature = 0;
    requests.push_back(request_of(prompt, 3));
    requests.back().regex = "(the|and|ing)+(, [a-c]{2,9})*\\.";
    requests.push_back(request_of(prompt, 1));  // beside them, one that is free
  }
  std::vector<Request> without = requests;
  for (Request& request : without) request.speculation.drafter = DrafterChoice::kOff;
  const std::vector<RequestResult> expected = run_all(*regular, without);
  expect_same_outputs(expected, run_all(*drafting, requests));
  EXPECT_GT(drafting->stats().speculation.accepted, 100);
  // In other company.
  const auto alone = load_tiny(1);
  ASSERT_NE(alone, nullptr);
  expect_same_outputs(expected, run_all(*alone, requests));
}

// --- thoughts with a budget. A model of random weights hardly ever ends them.

Request thinking_request(int n, int max_tokens = 40) {
  Request request;
  request.messages = {{"user", "What is a fork?"}, {"assistant", "<think>\nA fork"}};
  request.continue_final_message = true;
  request.n = n;
  request.max_tokens = max_tokens;
  request.seed = 11;
  request.sampling.temperature = 1.0f;
  request.sampling.ignore_eos = true;
  request.speculation.draft_length = "fixed:4";
  return request;
}

std::string bytes_of(const Engine& engine, std::span<const TokenId> tokens) {
  std::string bytes;
  for (const TokenId token : tokens) bytes += engine.token_text(token, /*at_start=*/false)->bytes;
  return bytes;
}

TEST(Constraint, ThoughtsEndWithinTheirBudgetAndAreTheModelsUntilThen) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  constexpr size_t kBudget = 7;
  for (const VerifyRule rule : {VerifyRule::kMatch, VerifyRule::kRejection, VerifyRule::kBlock}) {
    Request request = thinking_request(6);
    request.speculation.verify = rule;
    const RequestResult free = run_one(*engine, request);
    request.thinking_budget = kBudget;
    const RequestResult bound = run_one(*engine, request);
    for (size_t i = 0; i < free.choices.size(); ++i) {
      const ChoiceResult& choice = bound.choices[i];
      EXPECT_EQ(free.choices[i].text.find("</think>"), std::string::npos) << "the test proves nothing";
      EXPECT_NE(choice.text.find("</think>"), std::string::npos) << choice.text;
      EXPECT_EQ(choice.tokens.size(), 40u) << "what follows is free";
      const std::span<const TokenId> tokens(choice.tokens);
      EXPECT_EQ(bytes_of(*engine, tokens).find("</think>"), bytes_of(*engine, tokens.first(kBudget)).size());
      if (rule != VerifyRule::kMatch) continue;
      for (size_t j = 0; j < kBudget; ++j) EXPECT_EQ(choice.tokens[j], free.choices[i].tokens[j]);
    }
  }
  EXPECT_GT(engine->stats().speculation.accepted, 50) << "hardly anything was drafted: the test proves little";
}

TEST(Constraint, DraftsChangeNothingOfThoughtsWithABudget) {
  const auto regular = load_tiny(8, nullptr);
  const auto drafting = load_tiny();
  ASSERT_TRUE(regular != nullptr && drafting != nullptr);
  std::vector<Request> requests;
  for (const int budget : {0, 1, 5, 13, 1000}) {
    requests.push_back(thinking_request(3));
    requests.back().thinking_budget = budget;
    requests.push_back(thinking_request(1));
    requests.back().thinking_budget = budget;
    requests.back().sampling.temperature = 0;
    requests.push_back(json_request("", 2));
    requests.back().messages = requests.front().messages;
    requests.back().continue_final_message = requests.back().think_first = true;
    requests.back().thinking_budget = budget;
  }
  requests.push_back(thinking_request(2));  // beside them, one that may think for ever
  std::vector<Request> without = requests;
  for (Request& request : without) request.speculation.drafter = DrafterChoice::kOff;
  const std::vector<RequestResult> expected = run_all(*regular, without);
  expect_same_outputs(expected, run_all(*drafting, requests));
  EXPECT_GT(drafting->stats().speculation.accepted, 100);
  for (size_t i = 0; i + 1 < requests.size(); ++i) {
    if (requests[i].thinking_budget == 1000) continue;
    for (const ChoiceResult& choice : expected[i].choices) {
      const size_t end = choice.text.find("</think>");
      ASSERT_NE(end, std::string::npos) << choice.text;
      if (requests[i].json_schema) expect_fits(choice.text.substr(end + 8));
    }
  }
}

TEST(Constraint, ABudgetMeansNothingToWhatDoesNotThink) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  Request request = thinking_request(2);
  request.messages.back().content = "A fork";
  const RequestResult free = run_one(*engine, request);
  request.thinking_budget = 3;
  expect_same_outputs({free}, {run_one(*engine, request)});
  Request fits = json_request("", 2);
  fits.messages = thinking_request(1).messages;
  fits.continue_final_message = true;
  const RequestResult at_once = run_one(*engine, fits);
  fits.thinking_budget = 0;  // thoughts are none of what fits
  expect_same_outputs({at_once}, {run_one(*engine, fits)});
}

TEST(Constraint, BadBudgetsAreRefused) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  Request request = thinking_request(1);
  request.thinking_budget = -1;
  EXPECT_NE(engine->check(request).message().find("thinking_budget is -1"), std::string::npos);
  request = request_of("a", 1);
  request.thinking_budget = 3;
  EXPECT_NE(engine->check(request).message().find("thinking_budget: has a place in chats alone"), std::string::npos);
}

// The distribution of three letters, of which the grammar takes away most of what the model would say.
std::vector<int64_t> count_texts(Engine& engine, Request request, std::map<std::string, size_t>* cells) {
  std::vector<int64_t> counts(64, 0);
  request.n = 6000;
  request.regex = "[a-d]{3}";
  for (const ChoiceResult& choice : run_one(engine, request).choices) {
    EXPECT_EQ(choice.text.size(), 3u);
    const auto cell = cells->try_emplace(choice.text, cells->size()).first->second;
    if (cell < counts.size()) ++counts[cell];
  }
  EXPECT_LE(cells->size(), counts.size());
  return counts;
}

// The chi-square statistic of two samples of the same size, as a standard normal number
// (kernels/sampling/chi_square.h).
double difference(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  double statistic = 0;
  int n_cells = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto sum = static_cast<double>(a[i] + b[i]);
    if (sum < 16) continue;
    const auto gap = static_cast<double>(a[i] - b[i]);
    statistic += gap * gap / sum;
    ++n_cells;
  }
  const double freedom = n_cells - 1, variance = 2 / (9 * freedom);
  return (std::cbrt(statistic / freedom) - (1 - variance)) / std::sqrt(variance);
}

TEST(Constraint, DraftedAnswersHaveTheDistributionOfRegularOnes) {
  const auto engine = load_tiny(32);
  ASSERT_NE(engine, nullptr);
  std::map<std::string, size_t> cells;
  Request regular = request_of("I think", 1);
  regular.speculation.drafter = DrafterChoice::kOff;
  const std::vector<int64_t> expected = count_texts(*engine, regular, &cells);
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock, VerifyRule::kMatch}) {
    Request drafted = request_of("I think", 1);
    drafted.seed = 100 + static_cast<uint64_t>(rule);
    drafted.speculation.verify = rule;
    drafted.speculation.draft_length = "fixed:2";
    EXPECT_LT(difference(expected, count_texts(*engine, drafted, &cells)), kMayHappen) << static_cast<int>(rule);
  }
  Request other = regular;  // negative control
  other.seed = 200;
  other.sampling.temperature = 1.3f;
  EXPECT_GT(difference(expected, count_texts(*engine, other, &cells)), kMustReject);
}

TEST(Constraint, AnAnswerEndsWhereNothingMayFollow) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  Request request = request_of("I think", 4);
  request.regex = "the (end|and)";
  request.sampling.ignore_eos = true;
  for (const ChoiceResult& choice : run_one(*engine, request).choices) {
    EXPECT_TRUE(choice.text == "the end" || choice.text == "the and") << choice.text;
    EXPECT_EQ(choice.reason, FinishReason::kStop);
  }
  request.max_tokens = 2;
  for (const ChoiceResult& choice : run_one(*engine, request).choices) {
    EXPECT_EQ(choice.reason, FinishReason::kLength);
    EXPECT_EQ(std::string("the end").find(choice.text.substr(0, 4)), 0u) << choice.text;
  }
}

TEST(Constraint, ReportedLogProbabilitiesAreTheModelsOwn) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  const RequestResult result = run_one(*engine, json_request("Pets: ", 2));
  for (const ChoiceResult& choice : result.choices) {
    std::vector<TokenId> text = result.prompt.prompt_tokens;
    const size_t n_prompt = text.size();
    text.insert(text.end(), choice.tokens.begin(), choice.tokens.end());
    const RequestResult scored = score(*engine, text);
    for (size_t i = 0; i < choice.tokens.size(); ++i) {
      EXPECT_EQ(choice.logprobs[i], scored.prompt.prompt_logprobs[n_prompt - 1 + i]);
    }
  }
}

// SmolLM2 has no token for this control character, nor a byte of its own.
TEST(Constraint, WhatTheVocabularyCannotSpellIsAnErrorOfTheSample) {
  const auto engine = load_engine({.model_path = default_model(), .max_batch = 4, .context_len = 128});
  ASSERT_NE(engine, nullptr);
  Request request = request_of("I think", 2);
  request.max_tokens = 10;
  request.regex = "a\\x04";
  for (const ChoiceResult& choice : run_one(*engine, request).choices) {
    EXPECT_EQ(choice.text, "a");
    EXPECT_EQ(choice.reason, FinishReason::kError);
    EXPECT_NE(choice.error.find("its vocabulary lacks bytes"), std::string::npos) << choice.error;
  }
  request.regex = "ab";
  for (const ChoiceResult& choice : run_one(*engine, request).choices) EXPECT_EQ(choice.text, "ab");
}

// These texts meet more states together than one automaton holds at once.
TEST(Constraint, ThousandsOfOptionalPropertiesAreFollowed) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  Request request = request_of("I think", 2);
  nlohmann::json properties;
  for (int i = 0; i < 3000; ++i) properties["k" + std::to_string(i)] = {{"type", "boolean"}};
  request.json_schema = nlohmann::json{{"type", "object"}, {"properties", properties}}.dump();
  request.max_tokens = 60;
  for (const ChoiceResult& choice : run_one(*engine, request).choices) EXPECT_EQ(choice.error, "") << choice.text;
}

TEST(Constraint, AGrammarDoesNotWearOut) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  Request request = request_of("I think", 8);
  request.regex = "[ab]*a[ab]{24}";
  request.max_tokens = 400;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = 20;  // all letters alike
  for (int i = 0; i < 30; ++i, ++*request.seed) {
    for (const ChoiceResult& choice : run_one(*engine, request).choices) ASSERT_EQ(choice.error, "") << i;
  }
}

// With drafts as without: what was accepted in front of such a place is emitted, and a stop string there ends the text.
TEST(Constraint, WhatStandsInFrontOfAFailureIsKept) {
  const auto engine =
      load_engine({.model_path = default_model(), .draft_path = shipped_draft(), .max_batch = 4, .context_len = 128});
  ASSERT_NE(engine, nullptr);
  Request request = request_of("1, 2, 3, 4, 5, 6, 7,", 2);
  request.max_tokens = 30;
  request.regex = " 8, 9, 10, 11, 12\\x04";
  for (const ChoiceResult& choice : run_one(*engine, request).choices) {
    EXPECT_EQ(choice.text, " 8, 9, 10, 11, 12");
    EXPECT_EQ(choice.reason, FinishReason::kError);
  }
  request.stop = {" 12"};
  for (const ChoiceResult& choice : run_one(*engine, request).choices) {
    EXPECT_EQ(choice.text, " 8, 9, 10, 11,");
    EXPECT_EQ(choice.reason, FinishReason::kStop) << choice.error;
  }
  EXPECT_GT(engine->stats().speculation.accepted, 5);
}

TEST(Constraint, BadGrammarsAreRefusedWithTheirName) {
  const auto engine = load_tiny();
  ASSERT_NE(engine, nullptr);
  const auto error_of = [&](std::optional<std::string> schema, std::optional<std::string> regex) {
    Request request = request_of("I think", 1);
    request.json_schema = std::move(schema);
    request.regex = std::move(regex);
    const Status status = engine->check(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(error_of("{", std::nullopt).find("json_schema: "), 0u);
  EXPECT_EQ(error_of(std::nullopt, "(a").find("regex: "), 0u);
  EXPECT_NE(error_of(std::nullopt, "").find("only the empty text"), std::string::npos);
  EXPECT_NE(error_of("{}", "a").find("one of them"), std::string::npos);
}

}  // namespace
}  // namespace bass::testing
