// What the engine says a step asks of the machine, against the model's shape.
#include <gtest/gtest.h>

#include "bass/engine.h"
#include "model/model_file.h"

namespace bass {
namespace {

constexpr const char* kModel = BASS_TEST_DATA "/tiny/tiny_gqa_tied_q4_1.gguf";
constexpr int kPromptTokens = 40;
constexpr int kGenerated = 9;

struct Shape {
  double row_operations = 0;  // matrices of the layers and the head, one row
  double attention = 0;       // operations of a row, a position that it sees
  double kv_bytes = 0;        // of a token
};

Shape read_shape() {
  const ModelFile file = load_model_file(kModel).value();
  Shape shape;
  for (const LayerRefs& layer : file.weights.layers) {
    for_each_matrix(layer, [&](const MatrixRef& matrix) { shape.row_operations += 2.0 * matrix.n_out * matrix.n_in; });
  }
  shape.row_operations += 2.0 * file.config.vocab_size * file.config.d_model;
  shape.attention = 4.0 * file.config.q_dim() * file.config.n_layers;
  const double head_bytes = 2.0 * file.config.head_dim + 4;  // int16 and a scale
  shape.kv_bytes = 2 * head_bytes * file.config.n_kv_heads * file.config.n_layers;
  return shape;
}

/// Decodes `n` samples of one prompt.
EngineStats decode(int n, ActivationKind activations) {
  EngineOptions options;
  options.model_path = kModel;
  options.n_threads = 2;
  options.activations = activations;
  const auto engine = Engine::load(options).value();
  Request request;
  request.prompt_tokens.assign(kPromptTokens, 5);
  request.n = n;
  request.max_tokens = kGenerated;
  request.sampling.ignore_eos = true;
  request.speculation.drafter = DrafterChoice::kOff;
  const auto events = std::make_shared<EventQueue>();
  EXPECT_TRUE(engine->submit(request, events).ok());
  for (Event event; event.kind != Event::Kind::kDone || event.request_id == 0;) events->wait(&event);
  return engine->stats();
}

TEST(Work, IsTheModelsOperations) {
  const Shape shape = read_shape();
  const EngineStats stats = decode(1, ActivationKind::kInt8);
  ASSERT_EQ(stats.decode_steps, kGenerated - 1);  // the first one carries the prompt's last token
  EXPECT_DOUBLE_EQ(stats.decode_work[OperationClass::kInt8Dot], stats.decode_steps * shape.row_operations);
  double attention = 0;
  for (int i = 1; i < kGenerated; ++i) attention += shape.attention * (kPromptTokens + i);
  EXPECT_DOUBLE_EQ(stats.decode_work[OperationClass::kInt16Dot], attention);
  EXPECT_GT(stats.decode_work[OperationClass::kF32Fma], 0);  // norms and rotations are few
  EXPECT_LT(stats.decode_work[OperationClass::kF32Fma], attention);
}

TEST(Work, ReadsWeightsAndCachedTokensOnceAStep) {
  const Shape shape = read_shape();
  const EngineStats stats = decode(1, ActivationKind::kInt8);
  double cached = 0;
  for (int i = 1; i < kGenerated; ++i) cached += shape.kv_bytes * (kPromptTokens + i);
  EngineOptions options;
  options.model_path = kModel;
  const double weights = static_cast<double>(Engine::load(options).value()->model_info().step_bytes);
  EXPECT_NEAR(stats.decode_work.bytes, stats.decode_steps * weights + cached, 1e-2 * stats.decode_work.bytes);
}

TEST(Work, OfSiblingsReadsTheSharedPagesOnce) {
  const Shape shape = read_shape();
  const Work one = decode(1, ActivationKind::kInt8).decode_work;
  const Work two = decode(2, ActivationKind::kInt8).decode_work;
  EXPECT_DOUBLE_EQ(two[OperationClass::kInt8Dot], 2 * one[OperationClass::kInt8Dot]);
  double own = 0;  // the second sequence's: all but the prompt's first page of 32 tokens
  for (int i = 1; i < kGenerated; ++i) own += shape.kv_bytes * (kPromptTokens + i - 32);
  EXPECT_DOUBLE_EQ(two.bytes - one.bytes, own);
}

TEST(Work, OfInt16IsTwoPlanes) {
  const Work int8 = decode(1, ActivationKind::kInt8).decode_work;
  const Work int16 = decode(1, ActivationKind::kInt16).decode_work;
  EXPECT_DOUBLE_EQ(int16[OperationClass::kInt8Dot], 2 * int8[OperationClass::kInt8Dot]);
  EXPECT_DOUBLE_EQ(int16[OperationClass::kF32Fma], int8[OperationClass::kF32Fma]);
}

}  // namespace
}  // namespace bass
