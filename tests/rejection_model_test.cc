// `rejection` and `block` on the default model draw from the main model's distribution: the joint frequencies of three
// tokens, with top-k, top-p and a presence penalty on, against the probabilities that scoring gives (chi-square).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/engine_run.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

constexpr int kTopK = 4;  // one fewer than scoring reports: a penalised token leaves the top 4 known
constexpr float kTopP = 0.9f;
constexpr float kPresencePenalty = 0.8f;
constexpr int kDraws = 3000;
constexpr int kCounted = 3;  // tokens of a draw that are looked at
const char* const kPrompt = "My favourite thing about the summer is";

using Tokens = std::vector<TokenId>;
using Distribution = std::map<Tokens, double>;

// The processors by their definition, from the five highest raw log-probabilities.
std::map<TokenId, double> processed(const std::vector<std::pair<TokenId, float>>& top5, const Tokens& output,
                                    double temperature) {
  std::vector<std::pair<double, TokenId>> row;
  for (const auto& [id, logprob] : top5) {
    const bool is_present = std::find(output.begin(), output.end(), id) != output.end();
    row.emplace_back((logprob - (is_present ? kPresencePenalty : 0.0)) / temperature, id);
  }
  std::sort(row.rbegin(), row.rend());
  row.resize(kTopK);
  double sum = 0;
  for (const auto& [z, id] : row) sum += std::exp(z);
  std::map<TokenId, double> kept;
  double mass = 0;
  for (const auto& [z, id] : row) {
    if (mass >= kTopP) break;
    mass += kept[id] = std::exp(z) / sum;
  }
  for (auto& [id, p] : kept) p /= mass;
  return kept;
}

Distribution expected_distribution(Engine& engine, const Tokens& prompt, double temperature) {
  Distribution level{{{}, 1.0}};
  for (int depth = 0; depth < kCounted; ++depth) {
    Distribution next;
    for (const auto& [tokens, p] : level) {
      Tokens text = prompt;
      text.insert(text.end(), tokens.begin(), tokens.end());
      for (const auto& [id, q] : processed(score(engine, text).prompt.last_top5, tokens, temperature)) {
        Tokens longer = tokens;
        longer.push_back(id);
        next[longer] += p * q;
      }
    }
    level = next;
  }
  return level;
}

// (statistic - degrees of freedom) / its standard deviation; cells below 5 expected draws are put together.
double chi_square_z(const Distribution& expected, const std::map<Tokens, int>& counts, int n) {
  double statistic = 0, rest_expected = 0, rest_count = n;
  int n_cells = 0;
  for (const auto& [tokens, p] : expected) {
    const auto found = counts.find(tokens);
    const double count = found == counts.end() ? 0 : found->second;
    if (p * n < 5) {
      rest_expected += p * n;
      continue;
    }
    rest_count -= count;
    statistic += (count - p * n) * (count - p * n) / (p * n);
    ++n_cells;
  }
  if (rest_expected > 0.5) {
    statistic += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++n_cells;
  } else if (rest_count > 3) {
    return 1000;  // tokens that cannot come
  }
  return (statistic - (n_cells - 1)) / std::sqrt(2.0 * (n_cells - 1));
}

struct Drawn {
  std::map<Tokens, int> counts;  // of the first three tokens
  Tokens prompt;
  SpeculationStats stats;
};

// Rounds draft beyond the three tokens, so that `block` has something to decide that `rejection` decides otherwise.
Drawn draw(Engine& engine, VerifyRule rule) {
  Request request;
  request.prompt = kPrompt;
  request.n = kDraws;
  request.max_tokens = kCounted + 1;
  request.seed = 2024;
  request.sampling = {
      .temperature = 1.0f, .top_p = kTopP, .top_k = kTopK, .presence_penalty = kPresencePenalty, .ignore_eos = true};
  request.speculation = {.drafter = DrafterChoice::kModel, .draft_length = "fixed:3", .verify = rule};
  engine.reset_stats();
  const RequestResult result = run_one(engine, request);
  Drawn drawn{{}, result.prompt.prompt_tokens, engine.stats().speculation};
  for (const ChoiceResult& choice : result.choices)
    ++drawn.counts[{choice.tokens.begin(), choice.tokens.begin() + kCounted}];
  return drawn;
}

TEST(LosslessOnTheDefaultModel, ThreeTokensHaveTheMainModelsJointDistribution) {
  const std::string draft = ::testing::TempDir() + "/bass_rejection_draft.gguf";
  write_truncated_model(default_model(), 26, draft);
  auto engine = load_engine({.model_path = default_model(), .draft_path = draft, .max_batch = 64, .context_len = 256});
  ASSERT_NE(engine, nullptr);
  std::vector<Drawn> all;
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock}) all.push_back(draw(*engine, rule));
  EXPECT_NE(all[0].counts, all[1].counts) << "the rules decided alike: the test proves nothing about one of them";

  const Distribution expected = expected_distribution(*engine, all[0].prompt, 1.0);
  const Distribution flatter = expected_distribution(*engine, all[0].prompt, 1.2);
  for (const Drawn& drawn : all) {
    EXPECT_GT(drawn.stats.accepted, drawn.stats.drafted / 20);
    EXPECT_LT(drawn.stats.accepted, drawn.stats.drafted * 19 / 20) << "nothing was rejected: the test proves nothing";
    const double z = chi_square_z(expected, drawn.counts, kDraws);
    // A true null passes 4.5 standard deviations (with a chi-square's heavier tail) all but about once in 10,000 seeds;
    // the seed is fixed, so the test does not flicker.
    EXPECT_LT(z, 4.5);
    // Negative control: draws from a distribution that is only a little flatter would be found.
    EXPECT_GT(chi_square_z(flatter, drawn.counts, kDraws), 4.5);
    std::printf("chi-square z %.2f, %.3f accepted a round\n", z,
                static_cast<double>(drawn.stats.accepted) / static_cast<double>(drawn.stats.rounds));
  }
}

}  // namespace
}  // namespace bass::testing
