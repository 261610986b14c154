// Tracing drafts: the text stays regular decoding's, and the evidence on every draft is what whole distributions give,
// computed by a plain decoder in float32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "executor/draft_trace.h"
#include "model/model_file.h"
#include "support/engine_run.h"
#include "support/reference_decoder.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

constexpr int kDrafts = 4;

struct Step {
  DraftSource source;
  std::vector<DraftEvidence> evidence;
};

class Steps final : public DraftTrace {
 public:
  void add(RequestId request, int choice_idx, DraftSource source, std::span<const DraftEvidence> evidence) override {
    of[{request, choice_idx}].push_back({source, {evidence.begin(), evidence.end()}});
  }
  std::map<std::pair<RequestId, int>, std::vector<Step>> of;
};

std::vector<TokenId> repeating_prompt(int idx, int len) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < len; ++i) tokens.push_back(3 + (idx * 131 + i % 5 * i * 17 + i * 7) % 280);
  return tokens;
}

std::vector<Request> requests_of(float temperature, VerifyRule rule, DrafterChoice drafter) {
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) {
    Request request = greedy_request(repeating_prompt(i, 9 + 3 * i), 12);
    request.n = 1 + i % 2;
    request.sampling.temperature = temperature;
    request.seed = 5 + static_cast<uint64_t>(i);
    request.speculation = {drafter, "fixed:4", rule};
    requests.push_back(request);
  }
  return requests;
}

// The main model and a draft of other weights.
class DraftTraceTest : public ::testing::Test {
 protected:
  DraftTraceTest() { write_random_model(tiny_model(kTinyModel), 7, draft_path_); }

  EngineOptions options() {
    EngineOptions options{
        .model_path = tiny_model(kTinyModel), .draft_path = draft_path_, .max_batch = 8, .n_threads = 2};
    options.activations = ActivationKind::kInt16;
    return options;
  }

  TempFolder folder_;
  std::string draft_path_ = folder_ / "draft.gguf";
};

TEST_F(DraftTraceTest, TheTextIsRegularDecodings) {
  Steps steps;
  EngineOptions tracing = options();
  tracing.trace = &steps;
  const auto engine = load_engine(options());
  const auto traced_engine = load_engine(tracing);
  Request top = requests_of(0.0f, VerifyRule::kMatch, DrafterChoice::kNgram).front();
  top.top_logprobs = 1;
  EXPECT_THAT(traced_engine->check(top).message(), ::testing::HasSubstr("traces drafts"));
  EXPECT_TRUE(engine->check(top).ok());
  for (const float temperature : {0.0f, 0.8f}) {
    for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock, VerifyRule::kMatch}) {
      for (const DrafterChoice drafter : {DrafterChoice::kModel, DrafterChoice::kNgram}) {
        std::vector<Request> requests = requests_of(temperature, rule, drafter);
        const std::vector<RequestResult> traced = run_all(*traced_engine, requests);
        for (Request& request : requests) request.speculation.drafter = DrafterChoice::kOff;
        const std::vector<RequestResult> regular = run_all(*engine, requests);
        for (size_t i = 0; i < requests.size(); ++i) {
          for (size_t k = 0; k < regular[i].choices.size(); ++k) {
            EXPECT_EQ(traced[i].choices[k].tokens, regular[i].choices[k].tokens);
            EXPECT_EQ(traced[i].choices[k].logprobs, regular[i].choices[k].logprobs);
          }
        }
      }
    }
  }
  EXPECT_GT(steps.of.size(), 0U);
  for (const auto& [id, of_choice] : steps.of) EXPECT_EQ(of_choice.size(), 12U) << "a record for every token";
}

std::vector<double> softmax_row(const std::vector<double>& logprobs, double temperature) {
  std::vector<double> row;
  double sum = 0;
  for (const double logprob : logprobs) sum += row.emplace_back(std::exp(logprob / temperature));
  for (double& p : row) p /= sum;
  return row;
}

// Expects the evidence on a round behind `text` to be that of whole rows. draft: null: the drafts are one-hot.
void expect_evidence(const ModelFile& main, const ModelFile* draft, double temperature, std::vector<TokenId> text,
                     const std::vector<DraftEvidence>& evidence) {
  constexpr double kTolerance = 4e-3;  // weights are quantised the same, activations are not
  const size_t begin = text.size() - 1;
  for (const DraftEvidence& drafted : evidence) text.push_back(drafted.token);
  const auto main_rows = reference_logprobs(main, text);
  const auto draft_rows = draft != nullptr ? reference_logprobs(*draft, text) : main_rows;
  double joint = 1;
  for (size_t i = 0; i < evidence.size(); ++i) {
    const auto x = static_cast<size_t>(evidence[i].token);
    const std::vector<double> p = softmax_row(main_rows[begin + i], temperature);
    std::vector<double> q = softmax_row(draft_rows[begin + i], temperature);
    if (draft == nullptr) {
      q.assign(q.size(), 0);
      q[x] = 1;
    }
    double overlap = 0, residual = 0;
    for (size_t y = 0; y < p.size(); ++y) {
      overlap += std::min(p[y], q[y]);
      residual += std::max(joint * p[y] - q[y], 0.0);
    }
    EXPECT_NEAR(evidence[i].p, p[x], kTolerance);
    EXPECT_NEAR(evidence[i].q, q[x], kTolerance);
    EXPECT_NEAR(evidence[i].overlap, overlap, 4 * kTolerance);
    if (i > 0) {
      EXPECT_NEAR(evidence[i - 1].block, block_acceptance(joint, residual), 0.05);
    }
    joint = next_joint(joint, p[x], q[x]);
  }
}

TEST_F(DraftTraceTest, EvidenceIsWhatWholeDistributionsGive) {
  Steps steps;
  EngineOptions tracing = options();
  tracing.trace = &steps;
  const auto engine = load_engine(tracing);
  const ModelFile main = load_model_file(tiny_model(kTinyModel)).value();
  const ModelFile draft = load_model_file(draft_path_).value();
  size_t n_judged = 0;
  for (const DrafterChoice drafter : {DrafterChoice::kModel, DrafterChoice::kNgram}) {
    steps.of.clear();
    Request request = requests_of(0.8f, VerifyRule::kRejection, drafter)[2];
    request.sampling.ignore_eos = false;  // no token is banned
    const RequestResult result = run_one(*engine, request);
    const std::vector<Step>& of_choice = steps.of.begin()->second;
    std::vector<TokenId> text = request.prompt_tokens;
    for (size_t k = 0; k < result.choices[0].tokens.size(); ++k) {
      const bool is_model = of_choice[k].source == DraftSource::kModel;
      expect_evidence(main, is_model ? &draft : nullptr, 0.8, text, of_choice[k].evidence);
      n_judged += of_choice[k].evidence.size();
      text.push_back(result.choices[0].tokens[k]);
    }
  }
  EXPECT_GT(n_judged, 12U * kDrafts / 2);
}

// By its definition (kernels/sampling/agreement.h).
double chance_of_agreement(const std::vector<double>& p, const std::vector<double>& q) {
  double chance = 0;
  for (size_t x = 0; x < p.size(); ++x) {
    if (q[x] == 0) continue;
    double sum = 0;
    for (size_t y = 0; y < p.size(); ++y) sum += std::max(p[y] / p[x], q[y] / q[x]);
    chance += 1 / sum;
  }
  return chance;
}

// What policies are told of `match`, too.
TEST_F(DraftTraceTest, OverlapUnderMatchIsTheChanceOfTheSameToken) {
  constexpr float kTemperature = 0.3f;  // so that drafts are likely to propose few tokens
  constexpr double kTolerance = 0.05;   // activations are quantised, and bounds are not narrow
  Steps steps;
  EngineOptions tracing = options();
  tracing.trace = &steps;
  const auto engine = load_engine(tracing);
  const ModelFile main = load_model_file(tiny_model(kTinyModel)).value();
  const ModelFile draft = load_model_file(draft_path_).value();
  int n_chances = 0, n_drafted = 0;
  for (const DrafterChoice drafter : {DrafterChoice::kModel, DrafterChoice::kNgram}) {
    steps.of.clear();
    Request request = requests_of(kTemperature, VerifyRule::kMatch, drafter)[2];
    request.sampling.ignore_eos = false;  // no token is banned
    const RequestResult result = run_one(*engine, request);
    const std::vector<Step>& of_choice = steps.of.begin()->second;
    std::vector<TokenId> text = request.prompt_tokens;
    for (size_t k = 0; k < result.choices[0].tokens.size(); ++k) {
      std::vector<TokenId> drafted_text = text;
      for (const DraftEvidence& drafted : of_choice[k].evidence) drafted_text.push_back(drafted.token);
      const auto main_rows = reference_logprobs(main, drafted_text);
      const auto draft_rows = reference_logprobs(draft, drafted_text);
      for (size_t i = 0; i < of_choice[k].evidence.size(); ++i) {
        const DraftEvidence& drafted = of_choice[k].evidence[i];
        const size_t row = text.size() - 1 + i;
        const std::vector<double> p = softmax_row(main_rows[row], kTemperature);
        std::vector<double> q = softmax_row(draft_rows[row], kTemperature);
        if (of_choice[k].source != DraftSource::kModel) {
          q.assign(q.size(), 0);
          q[static_cast<size_t>(drafted.token)] = 1;
        }
        ++n_drafted;
        if (drafted.overlap == drafted.p) continue;  // so little is known of the chance
        ++n_chances;
        EXPECT_NEAR(drafted.overlap, chance_of_agreement(p, q), kTolerance);
      }
      text.push_back(result.choices[0].tokens[k]);
    }
  }
  EXPECT_GT(n_drafted, 12 * kDrafts / 2);
  EXPECT_GT(2 * n_chances, n_drafted);
}

}  // namespace
}  // namespace bass::testing
