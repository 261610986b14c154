// Drafts that were made for one main model against PyTorch in float32 (tests/goldens/make_draft_goldens.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "executor/cpu/forward.h"
#include "model/fingerprint.h"
#include "model/model_source.h"
#include "support/engine_run.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const nlohmann::json& draft_goldens() {
  static const nlohmann::json json = [] {
    std::ifstream file(data_file("tiny/draft_goldens.json"));
    EXPECT_TRUE(file.good());
    return nlohmann::json::parse(file);
  }();
  return json;
}

std::string main_path() { return data_file("tiny/" + draft_goldens()["main"].get<std::string>()); }
std::string draft_path(const nlohmann::json& golden) { return data_file("tiny/" + golden["file"].get<std::string>()); }

/// Main model and draft at one text, as the executor runs them.
class TwoModels {
 public:
  explicit TwoModels(const std::string& draft)
      : main_file_(load_model_file(main_path()).value()), draft_file_(load_model_file(draft).value()) {
    cpu::ForwardOptions options{.max_rows = 128, .n_planes = 2, .n_threads = 2};
    options.tap_layers = draft_file_.config.main->tap_layers;
    const auto n_taps = static_cast<int>(options.tap_layers.size());
    main_ = cpu::CpuModel::load(main_file_, {KvKind::kInt16, kPages, kPages * cpu::kKvPageLen, n_taps}, &team_).value();
    draft_ = cpu::CpuModel::load(draft_file_, {KvKind::kInt16, kPages, kPages * cpu::kKvPageLen}, &team_, main_.get())
                 .value();
    const cpu::Kernels* kernels = cpu::select_kernels().value();
    main_forward_ = std::make_unique<cpu::CpuForward>(main_.get(), kernels, options);
    options.tap_layers.clear();
    draft_forward_ = std::make_unique<cpu::CpuForward>(draft_.get(), kernels, options);
  }

  void run_main(const std::vector<TokenId>& tokens) { run(*main_forward_, *main_, tokens, 0, kFromTaps); }

  /// The draft's logits of all tokens, from position `start` on. [tokens.size(), n_vocab]
  std::vector<std::vector<float>> run_draft(const std::vector<TokenId>& tokens, int start, int hidden_row = kFromTaps) {
    run(*draft_forward_, *draft_, tokens, start, hidden_row);
    const auto n_vocab = static_cast<size_t>(draft_->config().vocab_size);
    std::vector<int> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> logits(rows.size() * n_vocab);
    team_.run([&](const TeamContext& context) {
      draft_forward_->logits(context, rows, logits.data());
      draft_forward_->keep_hidden(context, rows);
    });
    std::vector<std::vector<float>> result;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto first = logits.begin() + static_cast<ptrdiff_t>(i * n_vocab);
      result.emplace_back(first, first + static_cast<ptrdiff_t>(n_vocab));
    }
    return result;
  }

 private:
  static constexpr int kPages = 4;
  static constexpr int kFromTaps = cpu::CpuForward::kFromTaps;

  void run(cpu::CpuForward& forward, cpu::CpuModel& model, const std::vector<TokenId>& tokens, int start, int hidden) {
    static constexpr PageId kPageIds[kPages] = {2, 0, 3, 1};
    model.prepare_positions(start + static_cast<int>(tokens.size()));
    forward.begin_batch();
    forward.reserve(1, kPages);
    forward.add_segment(start, /*is_decode=*/true, kPageIds, kPages * cpu::kKvPageLen, kPageIds);
    for (const TokenId token : tokens) forward.add_token(token, hidden);
    forward.end_batch();
    team_.run([&](const TeamContext& context) { forward.run(context); });
  }

  ThreadTeam team_{2};
  ModelFile main_file_, draft_file_;
  std::unique_ptr<cpu::CpuModel> main_, draft_;
  std::unique_ptr<cpu::CpuForward> main_forward_, draft_forward_;
};

/// Root of the mean square, in logits that span 20.
double difference(const std::vector<float>& logits, const nlohmann::json& expected) {
  EXPECT_EQ(logits.size(), expected.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += std::pow(logits[i] - expected[i].get<double>(), 2);
  return std::sqrt(sum / static_cast<double>(logits.size()));
}

class DraftGoldens : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static const nlohmann::json& golden() {
    for (const auto& model : draft_goldens()["models"]) {
      if (model["file"] == GetParam() + ".gguf") return model;
    }
    ADD_FAILURE() << "no golden of " << GetParam();
    return draft_goldens()["models"][0];
  }
};
INSTANTIATE_TEST_SUITE_P(Tiny, DraftGoldens,
                         ::testing::Values("draft_feature_f32", "draft_feature_q8_0", "draft_shallow_f32",
                                           "draft_shallow_input_f32", "draft_head_q4_0"),
                         [](const auto& test) { return test.param; });

// What differs: keys and values in int16, the activations of quantised matrices in int16, and sums whose rounding to
// bfloat16 goes the other way.
TEST_P(DraftGoldens, LogitsEqualPyTorchs) {
  const double tolerance = GetParam().ends_with("q8_0") ? 5e-3 : 1e-3;
  TwoModels models(draft_path(golden()));
  for (const auto& text : golden()["texts"]) {
    const auto tokens = text["tokens"].get<std::vector<TokenId>>();
    const auto n_tokens = static_cast<int>(tokens.size());
    models.run_main(tokens);
    const auto rows = models.run_draft(tokens, 0);
    for (const auto& [row, expected] : text["rows"].items()) {
      EXPECT_LT(difference(rows[std::stoul(row)], expected), tolerance) << "row " << row;
    }
    // In two pieces, the second as a catch-up behind the first.
    models.run_draft({tokens.begin(), tokens.begin() + 19}, 0);
    std::vector<float> last = models.run_draft({tokens.begin() + 19, tokens.end()}, 19).back();
    EXPECT_EQ(last, rows.back());
    int hidden = n_tokens - 20;
    for (int i = 0; i < draft_goldens()["draft_len"].get<int>(); ++i) {
      const auto& drafted = text["drafts"][static_cast<size_t>(i)];
      EXPECT_LT(difference(last, drafted["logits"]), tolerance) << "draft " << i;
      last = models.run_draft({drafted["id"].get<TokenId>()}, n_tokens + i, hidden).front();
      hidden = 0;
    }
  }
}

TEST(DraftGoldensControl, AHeadOfAnotherTypeIsSeen) {
  const nlohmann::json& golden = draft_goldens()["models"].back();
  ASSERT_EQ(golden["file"], "draft_head_q4_0.gguf");
  const TempFolder folder;
  const std::string path = folder / "draft.gguf";
  write_edited_model(draft_path(golden), {.without = "bass-draft.main.head_type"}, path);
  TwoModels models(path);
  const auto& text = golden["texts"][0];
  const auto tokens = text["tokens"].get<std::vector<TokenId>>();
  models.run_main(tokens);
  const auto rows = models.run_draft(tokens, 0);
  EXPECT_GT(difference(rows[6], text["rows"]["6"]), 0.05);
}

struct Counts {
  int64_t drafted = 0, accepted = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Counts& c) { return out << c.accepted << "/" << c.drafted; }
};

/// Greedy decoding of the golden prompts, n samples of each, all at once.
Counts count_accepted(const nlohmann::json& golden, const std::string& draft, int max_batch, int max_step_tokens,
                      int n) {
  EngineOptions options{.model_path = main_path(), .draft_path = draft, .max_batch = max_batch, .n_threads = 2};
  options.activations = ActivationKind::kInt16;
  options.max_step_tokens = max_step_tokens;
  auto engine = load_engine(options);
  std::vector<Request> requests;
  for (const auto& greedy : golden["greedy"]) {
    Request request = greedy_request(greedy["prompt"].get<std::vector<TokenId>>(), greedy["tokens"].size());
    request.sampling.ignore_eos = false;
    request.speculation.drafter = DrafterChoice::kModel;
    request.speculation.draft_length = "fixed:" + draft_goldens()["draft_len"].dump();
    request.n = n;
    requests.push_back(request);
  }
  const std::vector<RequestResult> results = run_all(*engine, requests);
  for (size_t i = 0; i < results.size(); ++i) {
    for (const ChoiceResult& choice : results[i].choices) {
      EXPECT_EQ(choice.tokens, golden["greedy"][i]["tokens"].get<std::vector<TokenId>>());
    }
  }
  const SpeculationStats stats = engine->stats().speculation;
  return {stats.drafted, stats.accepted};
}

// PyTorch drafts from the logits of all tokens, those hidden that neither the vocabulary nor the prompt has. It would
// see fewer tokens accepted without the prompt's.
TEST(DraftGoldensControl, PromptsMatterToTheHead) {
  const auto& greedy = draft_goldens()["models"].back()["greedy"];
  for (const auto& text : greedy) {
    const auto accepted = text["accepted"].get<std::vector<int>>();
    EXPECT_GT(std::accumulate(accepted.begin(), accepted.end(), 0), text["accepted_without_prompt"].get<int>());
  }
}

Counts expected_counts(const nlohmann::json& golden) {
  Counts counts;
  const int draft_len = draft_goldens()["draft_len"];
  for (const auto& greedy : golden["greedy"]) {
    auto left = static_cast<int>(greedy["tokens"].size());
    for (const auto& accepted : greedy["accepted"]) {
      counts.drafted += std::min(draft_len, left - 1);
      counts.accepted += accepted.get<int>();
      left -= accepted.get<int>() + 1;
    }
  }
  return counts;
}

// Which drafts are accepted depends on every hidden state that the draft reads: of prompts in chunks, of forks, of
// tokens that were drafted and accepted.
TEST_P(DraftGoldens, RaggedBatchesAcceptWhatPyTorchDoes) {
  const Counts expected = expected_counts(golden());
  const std::string draft = draft_path(golden());
  ASSERT_GT(expected.accepted, 0);
  EXPECT_EQ(count_accepted(golden(), draft, 1, 256, 1), expected) << "one by one";
  EXPECT_EQ(count_accepted(golden(), draft, 8, 256, 1), expected) << "in a batch";
  EXPECT_EQ(count_accepted(golden(), draft, 3, 32, 1), expected) << "prompts in chunks beside running sequences";
  const Counts thrice = count_accepted(golden(), draft, 5, 40, 3);
  EXPECT_EQ(thrice, (Counts{3 * expected.drafted, 3 * expected.accepted})) << "samples of a prompt";
}

TEST(DraftGoldensControl, OtherHiddenStatesAreSeen) {
  const nlohmann::json& golden = draft_goldens()["models"][1];
  ASSERT_EQ(golden["file"], "draft_feature_q8_0.gguf");
  const TempFolder folder;
  const std::string path = folder / "draft.gguf";
  const std::string key = "bass-draft.tap_layers";
  write_edited_model(draft_path(golden), {.without = key, .add = [&](GgufBuilder& b) { b.add_i32s(key, {0}); }}, path);
  const Counts counts = count_accepted(golden, path, 1, 256, 1);  // the text is the same, which is checked there
  EXPECT_LT(counts.accepted, expected_counts(golden).accepted * 19 / 20);
}

void write_quantised_model(const std::string& source, DType type, const std::string& path) {
  ModelSource model = open_model_source(source).value();
  quantise_recipes(type, model.recipes);
  ThreadTeam team(1);
  std::ofstream out(path, std::ios::binary);
  const Status status = write_gguf(model, &team, [&](std::span<const std::byte> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return ok_status();
  });
  ASSERT_TRUE(status.ok()) << status.message();
}

std::string refusal(const std::string& main, const std::string& draft) {
  const auto engine = Engine::load({.model_path = main, .draft_path = draft});
  EXPECT_FALSE(engine.ok());
  return engine.ok() ? "" : engine.status().message();
}

TEST(DraftFiles, OfAnotherModelAreRefused) {
  const std::string draft = draft_path(draft_goldens()["models"][0]);
  EXPECT_THAT(refusal(tiny_model("tiny_mqa_tied_f32"), draft),
              AllOf(HasSubstr("made for the main model 'tiny_gqa_tied_f32'"), HasSubstr("tiny_mqa_tied_f32.gguf")));
  EXPECT_THAT(refusal(draft, ""), AllOf(HasSubstr("is a draft for 'tiny_gqa_tied_f32'"), HasSubstr("with -d")));
}

// The same model in another type is the same model; other weights, or another shape, are another.
TEST(DraftFiles, KnowTheirModelByItsFingerprint) {
  const auto fingerprint = [](const std::string& name) {
    const ModelFile file = load_model_file(tiny_model(name)).value();
    return model_fingerprint(file.config, file.weights);
  };
  const TempFolder folder;
  const std::string quantised = folder / "model.gguf";
  write_quantised_model(main_path(), DType::kQ4_0, quantised);
  const ModelFile file = load_model_file(quantised).value();
  const std::string expected = fingerprint("tiny_gqa_tied_f32");
  EXPECT_EQ(model_fingerprint(file.config, file.weights), expected);
  EXPECT_TRUE(Engine::load({.model_path = quantised, .draft_path = draft_path(draft_goldens()["models"][0])}).ok());
  for (const char* other : {"tiny_gqa_tied_f16", "tiny_mha_untied_f32", "draft_padded"}) {
    EXPECT_NE(fingerprint(other), expected) << other;
  }
}

TEST(DraftFiles, WithAFaultAreRefused) {
  const std::string source = draft_path(draft_goldens()["models"][1]);  // with taps, without a head
  const TempFolder folder;
  const std::string path = folder / "draft.gguf";
  const auto message = [&](const ModelEdit& edit) {
    write_edited_model(source, edit, path);
    const auto engine = Engine::load({.model_path = main_path(), .draft_path = path});
    return engine.ok() ? "" : engine.status().message();
  };
  const auto with = [&](const std::string& name, const std::function<void(GgufBuilder&, const std::string&)>& add) {
    const std::string key = "bass-draft." + name;
    return message({.without = key, .add = [&](GgufBuilder& builder) { add(builder, key); }});
  };
  const auto ints = [&](const std::string& name, const std::vector<int32_t>& values) {
    return with(name, [&](GgufBuilder& builder, const std::string& key) { builder.add_i32s(key, values); });
  };
  const auto number = [&](const std::string& name, uint32_t value) {
    return with(name, [&](GgufBuilder& builder, const std::string& key) { builder.add_u32(key, value); });
  };
  EXPECT_EQ(message({}), "");
  EXPECT_THAT(ints("tap_layers", {7}), HasSubstr("reads layer 7 of its main model, which has 2"));
  EXPECT_THAT(ints("tap_layers", {1, 1}), HasSubstr("'bass-draft.tap_layers' holds 1 behind 1"));
  EXPECT_THAT(ints("tap_layers", {-1}), HasSubstr("holds -1"));
  EXPECT_THAT(ints("tap_layers", {0, 1}), HasSubstr("draft.tap_norm.weight"));
  EXPECT_THAT(ints("tap_layers", {}), HasSubstr("draft.input.weight"));
  EXPECT_THAT(ints("vocabulary", {5, 4}), HasSubstr("'bass-draft.vocabulary' holds 4 behind 5"));
  EXPECT_THAT(ints("vocabulary", {5, 288}), HasSubstr("from 0 to 287"));
  EXPECT_THAT(number("main.vocab_size", 300), HasSubstr("embeddings of 300 x 64"));
  EXPECT_THAT(number("main.embedding_length", 32), HasSubstr("its embedding length is 64, the main model's 32"));
  EXPECT_THAT(number("block_count", 2), HasSubstr("blk.1.attn_norm.weight"));
  EXPECT_THAT(
      with("main.head_type", [](GgufBuilder& builder, const std::string& key) { builder.add_string(key, "q5_1"); }),
      AllOf(HasSubstr("'bass-draft.main.head_type' is 'q5_1'"), HasSubstr("must be 'q4_0'")));
  EXPECT_THAT(message({.without = "bass-draft.main.fingerprint"}), HasSubstr("bass-draft.main.fingerprint"));
  for (const char* tensor : {"draft.tap.weight", "draft.input.weight", "draft.embed_norm.weight",
                             "draft.feature_norm.weight", "blk.0.attn_q.weight", "output_norm.weight"}) {
    EXPECT_THAT(message({.without = tensor}), AllOf(HasSubstr(path), HasSubstr(tensor)));
    EXPECT_THAT(message({.misshapen = tensor}), AllOf(HasSubstr(path), HasSubstr(tensor)));
  }
}

}  // namespace
}  // namespace bass::testing
