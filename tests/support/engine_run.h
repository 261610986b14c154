// Runs requests on an engine and collects what comes back.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cache_folder.h"
#include "bass/engine.h"
#include "engine/start_gate.h"
#include "support/data_file.h"

namespace bass::testing {

struct ChoiceResult {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<TokenOrigin> origins;
  std::vector<TopLogprob> top_logprobs;
  std::string text;
  FinishReason reason = FinishReason::kError;
  std::string error;
  ChoiceStats stats;
};

struct RequestResult {
  std::vector<ChoiceResult> choices;
  Event prompt;  // the kPrompt event
  bool is_done = false;
};

/// The default model, for tests that need real text. A test without it fails: a skipped proof is no proof.
inline std::string default_model() {
  if (const char* path = std::getenv("BASS_TEST_MODEL"); path != nullptr && *path != '\0') return path;
  return cache_folder() + "/SmolLM2-135M-Instruct.Q4_1.gguf";
}

/// The draft that comes with the default model.
inline std::string shipped_draft() { return data_file("../../models/smollm2-135m-draft.gguf"); }

inline std::unique_ptr<Engine> load_engine(const EngineOptions& options) {
  Result<std::unique_ptr<Engine>> engine = Engine::load(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message() << " (tools/test.sh fetches the default model)";
  return engine.ok() ? std::move(engine).value() : nullptr;
}

/// Adds an event to the result that it belongs to; true when it was the request's last.
inline bool collect(Event event, RequestResult* result) {
  result->choices.resize(std::max(result->choices.size(), static_cast<size_t>(event.choice_idx) + 1));
  ChoiceResult& choice = result->choices[static_cast<size_t>(event.choice_idx)];
  switch (event.kind) {
    case Event::Kind::kPrompt:
      result->prompt = std::move(event);
      return false;
    case Event::Kind::kTokens:
      for (const TokenInfo& token : event.tokens) {
        choice.tokens.push_back(token.id);
        choice.logprobs.push_back(token.logprob);
        choice.origins.push_back(token.origin);
      }
      choice.top_logprobs.insert(choice.top_logprobs.end(), event.top_logprobs.begin(), event.top_logprobs.end());
      choice.text += event.text;
      return false;
    case Event::Kind::kFinished:
      choice.text += event.text;
      choice.reason = event.finish_reason;
      choice.error = event.error.message();
      choice.stats = event.stats;
      return false;
    case Event::Kind::kDone:
      result->is_done = true;
      return true;
  }
  return false;
}

/// Submits all requests at once and waits for all of them. start: the engine's gate, so that all requests are there
/// when the first step begins; null: it has none
inline std::vector<RequestResult> run_all(Engine& engine, const std::vector<Request>& requests,
                                          StartGate* start = nullptr) {
  auto events = std::make_shared<EventQueue>();
  std::vector<RequestResult> results(requests.size());
  std::map<RequestId, size_t> idx_of_id;
  {
    const ClosedGate until_all_are_submitted(start);
    for (size_t i = 0; i < requests.size(); ++i) {
      const Result<RequestId> id = engine.submit(requests[i], events);
      EXPECT_TRUE(id.ok()) << id.status().message();
      if (id.ok()) idx_of_id[id.value()] = i;
    }
  }
  size_t n_done = 0;
  for (Event event; n_done < idx_of_id.size() && events->wait(&event, std::chrono::seconds(300));) {
    const size_t i = idx_of_id.at(event.request_id);
    if (collect(std::move(event), &results[i])) ++n_done;
    event = {};
  }
  EXPECT_EQ(n_done, idx_of_id.size()) << "requests that never ended";
  return results;
}

inline RequestResult run_one(Engine& engine, const Request& request) { return run_all(engine, {request}).front(); }

/// Tokens, their log-probabilities to the bit, and ends.
inline void expect_same_outputs(const std::vector<RequestResult>& expected, const std::vector<RequestResult>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].choices.size(), actual[i].choices.size());
    for (size_t k = 0; k < expected[i].choices.size(); ++k) {
      EXPECT_EQ(expected[i].choices[k].tokens, actual[i].choices[k].tokens) << "request " << i << " choice " << k;
      EXPECT_EQ(expected[i].choices[k].logprobs, actual[i].choices[k].logprobs) << "request " << i << " choice " << k;
      EXPECT_EQ(expected[i].choices[k].reason, actual[i].choices[k].reason);
    }
  }
}

/// Log-probabilities of the tokens 1.. of a text, computed as a prompt.
inline RequestResult score(Engine& engine, std::vector<TokenId> tokens) {
  Request request;
  request.prompt_tokens = std::move(tokens);
  request.prompt_logprobs = true;
  request.max_tokens = 0;
  return run_one(engine, request);
}

/// Greedy continuation of token ids.
inline Request greedy_request(std::vector<TokenId> prompt, int max_tokens) {
  Request request;
  request.prompt_tokens = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  return request;
}

}  // namespace bass::testing
