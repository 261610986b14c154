// Which requests an engine takes, and what it says of the others, on tiny random models.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bass/tokenizer.h"
#include "support/engine_run.h"
#include "support/made_up_prompt.h"
#include "support/temp_folder.h"
#include "support/test_models.h"
#include "text/vocab.h"

namespace bass::testing {
namespace {

TEST(Engine, APromptLongerThanTheContextIsRefusedWithItsNumbers) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  const Result<RequestId> id = engine->submit(greedy_request(prompt_of(0, 256), 10), std::make_shared<EventQueue>());
  ASSERT_FALSE(id.ok());
  EXPECT_THAT(id.status().message(), ::testing::HasSubstr("256 tokens"));
  EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
}

// What submit refuses, check refuses with the same words: a line of many is not found out behind others' answers.
TEST(Engine, ChecksWhatOnlyTokensTell) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  const auto expect_same = [&](const Request& request, bool is_taken) {
    const Status checked = engine->check(request);
    const Result<RequestId> id = engine->submit(request, std::make_shared<EventQueue>());
    EXPECT_EQ(checked.ok(), is_taken) << request.prompt.size();
    EXPECT_EQ(checked.message(), id.ok() ? "" : id.status().message());
  };
  Request request;
  request.max_tokens = 4;
  for (const int n_words : {1, 60, 120, 130, 200, 255, 256, 257, 400}) {
    request.prompt.clear();
    for (int i = 0; i < n_words; ++i) request.prompt += " a";
    const bool fits = engine->tokenize(request.prompt, true, true).value().size() < 256;
    expect_same(request, fits);
  }
  expect_same(Request{}, false);  // no prompt
  request.prompt = "a";
  request.stop = {"\xFF"};
  expect_same(request, false);
  request.stop = std::vector<std::string>(1000, "a");
  expect_same(request, false);
  request.stop.clear();
  request.sampling.logit_bias.assign(100'000, {1, 0.5F});
  expect_same(request, false);
  request = greedy_request(prompt_of(0, 256), 0);
  request.prompt_logprobs = true;  // no answer: the prompt may fill the context
  expect_same(request, true);
}

TEST(Engine, ChecksARequestWithoutItsTokens) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  Request request;
  request.prompt = "hello";
  EXPECT_TRUE(engine->check(request).ok());
  request.sampling.logit_bias = {{1'000'000, 1.0F}};
  EXPECT_THAT(engine->check(request).message(), ::testing::HasSubstr("1000000"));
  request.sampling.logit_bias.clear();
  request.prompt = std::string(1'000'000, 'a');  // more than the context holds even of the longest token
  EXPECT_THAT(engine->check(request).message(), ::testing::HasSubstr("at least"));
  request.chat = true;
  EXPECT_FALSE(engine->check(request).ok());
  EXPECT_FALSE(engine->check(greedy_request(prompt_of(0, 256), 10)).ok());
  EXPECT_TRUE(engine->check(greedy_request(prompt_of(0, 255), 10)).ok());
}

/// A model with SentencePiece's vocabulary, as Llama 2's.
std::string write_sentencepiece_model(const TempFolder& folder) {
  constexpr size_t kVocabSize = 288;
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {static_cast<int32_t>(TokenType::kUnknown), static_cast<int32_t>(TokenType::kControl),
                                static_cast<int32_t>(TokenType::kControl)};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(static_cast<int32_t>(TokenType::kByte));
  }
  for (const char* piece : {"\u2581", "a", "b", "ab", "\u2581ab"}) tokens.emplace_back(piece);
  for (size_t i = tokens.size(); i < kVocabSize; ++i) tokens.push_back(fmt::format("unused{}", i));
  types.resize(kVocabSize, static_cast<int32_t>(TokenType::kNormal));
  std::vector<float> scores(kVocabSize);
  for (size_t i = 0; i < kVocabSize; ++i) scores[i] = -static_cast<float>(kVocabSize - i);
  const std::string path = folder / "sentencepiece.gguf";
  const ModelEdit edit{.without = "tokenizer.", .misshapen = {}, .add = [&](GgufBuilder& builder) {
                         builder.add_string("tokenizer.ggml.model", "llama")
                             .add_strings("tokenizer.ggml.tokens", tokens)
                             .add_i32s("tokenizer.ggml.token_type", types)
                             .add_f32s("tokenizer.ggml.scores", scores)
                             .add_u32("tokenizer.ggml.bos_token_id", 1)
                             .add_u32("tokenizer.ggml.eos_token_id", 2)
                             .add_bool("tokenizer.ggml.add_bos_token", true);
                       }};
  write_edited_model(tiny_model(kTinyModel), edit, path);
  return path;
}

// Alone each would be the beginning of a text, where SentencePiece shows no space.
TEST(Engine, TheTextsOfTokensAreThatOfAllOfThem) {
  const TempFolder folder;
  auto engine = load_engine({.model_path = write_sentencepiece_model(folder), .n_threads = 1});
  const std::vector<TokenId> ids = engine->tokenize("ab ab\u00e9</s> b", true, true).value();
  std::vector<std::string> texts;
  std::string text;
  bool at_start = true;
  for (const TokenId id : ids) {
    const TokenText token = engine->token_text(id, at_start).value();
    EXPECT_EQ(token.is_special, id <= 2);
    at_start = token.at_start;
    texts.push_back(token.bytes);
    text += token.bytes;
  }
  EXPECT_EQ(text, engine->detokenize(ids).value());
  EXPECT_THAT(texts, ::testing::ElementsAre("<s>", "ab", " ab", "\xC3", "\xA9", "</s>", " ", " ", "b"));
  EXPECT_EQ(engine->token_text(ids[1], false)->bytes, " ab");
  EXPECT_EQ(engine->detokenize({&ids[1], 1}).value(), "ab");
  EXPECT_THAT(engine->token_text(288, false).status().message(), ::testing::HasSubstr("token 288"));
}

TEST(Engine, WrongRequestsAreRefusedWithTheNameOfTheOption) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  auto events = std::make_shared<EventQueue>();
  const auto message = [&](const std::function<void(Request*)>& change) {
    Request request = greedy_request(prompt_of(0, 5), 5);
    change(&request);
    const Result<RequestId> id = engine->submit(request, events);
    EXPECT_FALSE(id.ok());
    return id.status().message();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message([](Request* r) { r->n = 0; }), HasSubstr("n is 0"));
  EXPECT_THAT(message([](Request* r) { r->max_tokens = 0; }), HasSubstr("max_tokens is 0"));
  EXPECT_THAT(message([](Request* r) { r->prompt_tokens.clear(); }), HasSubstr("prompt is empty"));
  EXPECT_THAT(message([](Request* r) { r->prompt_tokens = {100000}; }), HasSubstr("100000"));
  EXPECT_THAT(message([](Request* r) { r->prompt_tokens.clear(), r->prompt = "a\xFF"; }), HasSubstr("byte 1"));
  EXPECT_THAT(message([](Request* r) { r->sampling.temperature = -1; }), HasSubstr("temperature is -1"));
  EXPECT_THAT(message([](Request* r) { r->sampling.temperature = std::nanf(""); }), HasSubstr("temperature"));
  EXPECT_THAT(message([](Request* r) { r->sampling.top_p = 0; }), HasSubstr("top_p is 0"));
  EXPECT_THAT(message([](Request* r) { r->sampling.top_p = 1.5f; }), HasSubstr("top_p is 1.5"));
  EXPECT_THAT(message([](Request* r) { r->sampling.logit_bias = {{-1, 1.0f}}; }), HasSubstr("logit_bias"));
  EXPECT_THAT(message([](Request* r) { r->stop = {""}; }), HasSubstr("stop string is empty"));
  EXPECT_THAT(message([](Request* r) { r->speculation.draft_length = "fixed:-1"; }),
              HasSubstr("'-1' is not a whole number"));
  EXPECT_THAT(message([](Request* r) { r->speculation.drafter = DrafterChoice::kModel; }), HasSubstr("-d DRAFT.gguf"));
  EXPECT_THAT(message([](Request* r) { r->time_budget_s = 0; }), HasSubstr("time_budget"));
  EXPECT_THAT(message([](Request* r) { r->time_budget_s = 2e8; }), HasSubstr("at most 100000000"));
  EXPECT_THAT(message([](Request* r) { r->sampling.logit_bias = {{1, 1e7f}}; }), HasSubstr("from -1000000 to 1000000"));
  EXPECT_THAT(message([](Request* r) { r->top_logprobs = 21; }), HasSubstr("must be from 0 to 20"));
  EXPECT_THAT(message([](Request* r) { r->speculation.drafter = static_cast<DrafterChoice>(77); }),
              HasSubstr("drafter is 77"));
  EXPECT_THAT(message([](Request* r) { r->speculation.verify = static_cast<VerifyRule>(9); }),
              HasSubstr("verify is 9"));
}

TEST(Engine, WrongOptionsAreRefusedWithTheirName) {
  const auto message = [](const std::function<void(EngineOptions*)>& change) {
    EngineOptions options{.model_path = tiny_model(kTinyModel), .n_threads = 1};
    change(&options);
    const auto engine = Engine::load(options);
    EXPECT_EQ(engine.status().code(), StatusCode::kInvalidArgument);
    return engine.status().message();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message([](EngineOptions* o) { o->model_path = ""; }), HasSubstr("model_path is empty"));
  EXPECT_THAT(message([](EngineOptions* o) { o->kv = static_cast<KvKind>(99); }), HasSubstr("kv is 99"));
  EXPECT_THAT(message([](EngineOptions* o) { o->attention = static_cast<AttentionKind>(99); }),
              HasSubstr("attention is 99"));
  EXPECT_THAT(message([](EngineOptions* o) { o->activations = static_cast<ActivationKind>(99); }),
              HasSubstr("activations is 99"));
  EXPECT_THAT(message([](EngineOptions* o) { o->max_batch = 0; }), HasSubstr("max_batch is 0; it must be from 1 to"));
  EXPECT_THAT(message([](EngineOptions* o) { o->context_len = 0; }), HasSubstr("context is 0"));
  EXPECT_THAT(message([](EngineOptions* o) { o->kv_memory_mib = 2'000'000'000; }),
              HasSubstr("kv_memory is 2000000000; it must be >= 1 MiB and at most 1000000000"));
  EXPECT_THAT(message([](EngineOptions* o) { o->prefix_cache_mib = -1; }), HasSubstr("prefix_cache is -1"));
  EXPECT_THAT(message([](EngineOptions* o) { o->quantize = "q9"; }), HasSubstr("quantize 'q9'"));
}

TEST(Engine, TellsWhatTheModelWouldRead) {
  const auto engine = load_engine({.model_path = default_model(), .context_len = 64});
  Request request;
  request.prompt = "What is a fork?";
  EXPECT_EQ(engine->prompt_tokens(request).value(), engine->tokenize(request.prompt, true, true).value());
  request.chat = true;
  request.system = "Be brief.";
  const std::vector<TokenId> ids = engine->prompt_tokens(request).value();
  const std::string text = engine->detokenize(ids).value();
  EXPECT_EQ(text,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is a fork?<|im_end|>\n"
            "<|im_start|>assistant\n");
  Request conversation;
  conversation.messages = {{"system", "Be brief."}, {"user", "What is a fork?"}};
  EXPECT_EQ(engine->prompt_tokens(conversation).value(), ids);
  EXPECT_EQ(run_one(*engine, conversation).prompt.prompt_tokens, ids);
  EXPECT_EQ(FileTokenizer::load(default_model()).value()->encode_chat(conversation.messages).value(), ids);
  request.prompt = std::string(10'000, 'a');
  EXPECT_GT(engine->prompt_tokens(request).value().size(), 64u) << "more than the context holds";
  conversation.messages.clear();
  EXPECT_EQ(engine->prompt_tokens(conversation).status().code(), StatusCode::kInvalidArgument);
}

TEST(Engine, OptionsTellWhatWasChosen) {
  const auto engine = load_engine({.model_path = tiny_model(kTinyModel)});
  const EngineOptions& chosen = engine->options();
  EXPECT_GT(chosen.n_threads, 0);
  EXPECT_GT(chosen.context_len.value(), 0);
  EXPECT_GT(chosen.kv_memory_mib.value(), 0);
  EXPECT_GE(chosen.prefix_cache_mib.value(), 0);
  EXPECT_LE(chosen.prefix_cache_mib.value(), chosen.kv_memory_mib.value());
  const auto named = load_engine({.model_path = tiny_model(kTinyModel), .kv_memory_mib = 100, .prefix_cache_mib = 0});
  EXPECT_EQ(named->options().kv_memory_mib, 100);
  EXPECT_EQ(named->options().prefix_cache_mib, 0);
}

}  // namespace
}  // namespace bass::testing
