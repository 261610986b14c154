// The most probable tokens in the place of each token: those of scoring the text, whatever has drafted it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/engine_run.h"

namespace bass::testing {
namespace {

std::unique_ptr<Engine> load_with_draft() {
  EngineOptions options;
  options.model_path = tiny_model(kTinyModel);
  options.draft_path = tiny_model("draft_padded");
  options.n_threads = 2;
  options.max_batch = 4;
  options.max_step_tokens = 24;
  return load_engine(options);
}

Request request_of(VerifyRule rule, float temperature, int n_top) {
  Request request;
  request.prompt = "I think";
  request.n = 3;
  request.max_tokens = 40;
  request.top_logprobs = n_top;
  request.sampling.temperature = temperature;
  request.sampling.ignore_eos = true;
  request.sampling.repetition_penalty = 1.3f;  // what is told is of the model alone
  request.speculation.draft_length = "fixed:4";
  request.speculation.verify = rule;
  return request;
}

// What scoring tells of a text, of which `begin` tokens are the prompt.
std::vector<TopLogprob> scored(Engine* engine, std::vector<TokenId> text, size_t begin, int n_top) {
  Request request;
  request.prompt_tokens = std::move(text);
  request.max_tokens = 0;
  request.prompt_logprobs = true;
  request.top_logprobs = n_top;
  const RequestResult result = run_one(*engine, request);
  const auto& top = result.prompt.top_logprobs;
  EXPECT_EQ(top.size(), (request.prompt_tokens.size() - 1) * static_cast<size_t>(n_top));
  return {top.begin() + static_cast<ptrdiff_t>((begin - 1) * static_cast<size_t>(n_top)), top.end()};
}

TEST(TopLogprobs, AreThoseOfScoringTheText) {
  const auto engine = load_with_draft();
  ASSERT_NE(engine, nullptr);
  for (const VerifyRule rule : {VerifyRule::kMatch, VerifyRule::kRejection, VerifyRule::kBlock}) {
    for (const int n_top : {1, 5, 20}) {
      const RequestResult result = run_one(*engine, request_of(rule, 0.9f, n_top));
      for (const ChoiceResult& choice : result.choices) {
        ASSERT_EQ(choice.tokens.size(), 40u);
        std::vector<TokenId> text = result.prompt.prompt_tokens;
        text.insert(text.end(), choice.tokens.begin(), choice.tokens.end());
        EXPECT_EQ(choice.top_logprobs, scored(engine.get(), text, result.prompt.prompt_tokens.size(), n_top));
      }
    }
  }
  EXPECT_GT(engine->stats().speculation.accepted, 0) << "nothing was drafted: the test proves little";
}

TEST(TopLogprobs, BeginWithTheMostProbableAndAgreeWithTheTokens) {
  const auto engine = load_with_draft();
  ASSERT_NE(engine, nullptr);
  constexpr int kTop = 20;
  const RequestResult result = run_one(*engine, request_of(VerifyRule::kBlock, 1.0f, kTop));
  int n_found = 0, n_first = 0;
  for (const ChoiceResult& choice : result.choices) {
    ASSERT_EQ(choice.top_logprobs.size(), choice.tokens.size() * kTop);
    for (size_t i = 0; i < choice.tokens.size(); ++i) {
      const auto begin = choice.top_logprobs.begin() + static_cast<ptrdiff_t>(i * kTop);
      EXPECT_TRUE(std::is_sorted(begin, begin + kTop,
                                 [](const TopLogprob& a, const TopLogprob& b) { return a.logprob > b.logprob; }));
      const auto found =
          std::find_if(begin, begin + kTop, [&](const TopLogprob& top) { return top.id == choice.tokens[i]; });
      if (found == begin + kTop) {
        EXPECT_LE(choice.logprobs[i], (begin + kTop - 1)->logprob);
        continue;
      }
      ++n_found;
      n_first += found == begin ? 1 : 0;
      EXPECT_NEAR(found->logprob, choice.logprobs[i], 1e-5);
    }
  }
  EXPECT_GT(n_found, n_first) << "sampled tokens are not always the most probable ones";
}

TEST(TopLogprobs, NobodyWhoDoesNotAskIsTold) {
  const auto engine = load_with_draft();
  ASSERT_NE(engine, nullptr);
  Request silent = request_of(VerifyRule::kMatch, 0.0f, 0);
  const std::vector<RequestResult> results = run_all(*engine, {silent, request_of(VerifyRule::kMatch, 0.0f, 3)});
  EXPECT_TRUE(results[0].choices[0].top_logprobs.empty());
  EXPECT_EQ(results[0].choices[0].tokens, results[1].choices[0].tokens);
  for (const int n_top : {-1, 21}) {
    silent.top_logprobs = n_top;
    EXPECT_EQ(engine->check(silent).code(), StatusCode::kInvalidArgument) << n_top;
  }
}

// A stop text cuts a step's tokens, and what is told of them.
TEST(TopLogprobs, EndWithTheTokens) {
  const auto engine = load_with_draft();
  ASSERT_NE(engine, nullptr);
  Request request = request_of(VerifyRule::kMatch, 0.0f, 2);
  request.n = 1;
  const ChoiceResult whole = run_one(*engine, request).choices[0];
  const auto letter = std::find_if(whole.text.begin() + static_cast<ptrdiff_t>(whole.text.size() / 2), whole.text.end(),
                                   [](char c) { return c >= 'a' && c <= 'z'; });
  ASSERT_NE(letter, whole.text.end());
  request.stop = {std::string(1, *letter)};
  const ChoiceResult cut = run_one(*engine, request).choices[0];
  ASSERT_LT(cut.tokens.size(), whole.tokens.size());
  EXPECT_EQ(cut.top_logprobs.size(), 2 * cut.tokens.size());
}

}  // namespace
}  // namespace bass::testing
