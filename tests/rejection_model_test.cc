// `rejection` and `block` draw from the main model's distribution: the frequencies of three tokens, jointly and
// position by position, with top-k, top-p and a presence penalty on, against the probabilities that scoring gives
// (chi-square). The default model shows it on real text, a tiny one with many more draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/engine_run.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

constexpr int kTopK = 4;  // fewer than the tokens that scoring reports: penalised ones change places
constexpr float kTopP = 0.9f;
constexpr float kPresencePenalty = 0.8f;
constexpr int kCounted = 3;           // tokens of a draw that are looked at
constexpr TokenId kLastEndToken = 2;  // of the models used here; end tokens are banned
// Standard deviations of a normal distribution, as which chi_square_z is distributed: passed by chance about 3 times in
// a million, so once in 20,000 seeds by any of the 16 comparisons here. The seed is fixed: the test does not flicker.
constexpr double kMaxZ = 4.5;

using Tokens = std::vector<TokenId>;
using Distribution = std::map<Tokens, double>;

// The processors by their definition, from the five highest raw log-probabilities, which must tell all of it.
std::map<TokenId, double> processed(const std::vector<std::pair<TokenId, float>>& top5, const Tokens& output,
                                    double temperature) {
  std::vector<std::pair<double, TokenId>> row;
  for (const auto& [id, logprob] : top5) {
    EXPECT_GT(id, kLastEndToken) << "take another prompt";
    const bool is_present = std::find(output.begin(), output.end(), id) != output.end();
    row.emplace_back((logprob - (is_present ? kPresencePenalty : 0.0)) / temperature, id);
  }
  std::sort(row.rbegin(), row.rend());
  row.resize(kTopK);
  EXPECT_GE(row.back().first, top5.back().second / temperature) << "others may be among the kept: take another prompt";
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

// The distribution of the tokens at one position.
template <class Number>
std::map<Tokens, Number> marginal(const std::map<Tokens, Number>& joint, int position) {
  std::map<Tokens, Number> sums;
  for (const auto& [tokens, number] : joint) sums[{tokens[static_cast<size_t>(position)]}] += number;
  return sums;
}

// Pearson's statistic, cells below 5 expected draws put together, as a standard normal variable (Wilson and Hilferty's
// cube root, good for few degrees of freedom too).
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
  const double df = n_cells - 1;
  if (df < 1) return 0;
  return (std::cbrt(statistic / df) - (1 - 2 / (9 * df))) / std::sqrt(2 / (9 * df));
}

struct Drawn {
  std::map<Tokens, int> counts;  // of the first three tokens
  Tokens prompt;
  SpeculationStats stats;
};

// Rounds draft beyond the three tokens, so that `block` has something to decide that `rejection` decides otherwise.
Drawn draw(Engine& engine, const char* prompt, VerifyRule rule, int n_draws) {
  Request request;
  request.prompt = prompt;
  request.n = n_draws;
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

void expect_main_models_distribution(Engine& engine, const char* prompt, int n_draws) {
  std::vector<Drawn> all;
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock}) {
    all.push_back(draw(engine, prompt, rule, n_draws));
  }
  EXPECT_NE(all[0].counts, all[1].counts) << "the rules decided alike: the test proves nothing about one of them";

  const Distribution expected = expected_distribution(engine, all[0].prompt, 1.0);
  const Distribution flatter = expected_distribution(engine, all[0].prompt, 1.2);
  for (const Drawn& drawn : all) {
    EXPECT_GT(drawn.stats.accepted, drawn.stats.drafted / 20);
    EXPECT_LT(drawn.stats.accepted, drawn.stats.drafted * 19 / 20) << "nothing was rejected: the test proves nothing";
    const double z = chi_square_z(expected, drawn.counts, n_draws);
    EXPECT_LT(z, kMaxZ) << "jointly";
    for (int i = 0; i < kCounted; ++i) {
      EXPECT_LT(chi_square_z(marginal(expected, i), marginal(drawn.counts, i), n_draws), kMaxZ) << "position " << i;
    }
    // Negative control: draws from a distribution that is only a little flatter would be found.
    EXPECT_GT(chi_square_z(flatter, drawn.counts, n_draws), kMaxZ);
    std::printf("chi-square z %.2f, %.3f accepted a round\n", z,
                static_cast<double>(drawn.stats.accepted) / static_cast<double>(drawn.stats.rounds));
  }
}

TEST(Lossless, ThreeTokensOfTheDefaultModelHaveItsDistribution) {
  const TempFolder folder;
  const std::string draft = folder / "draft.gguf";
  write_truncated_model(default_model(), 26, draft);
  auto engine = load_engine({.model_path = default_model(), .draft_path = draft, .max_batch = 64, .context_len = 256});
  ASSERT_NE(engine, nullptr);
  expect_main_models_distribution(*engine, "My favourite thing about the summer is", 3000);
}

TEST(Lossless, ThreeTokensOfATinyModelHaveItsDistribution) {
  auto engine = load_engine(
      {.model_path = tiny_model("tiny_gqa_tied_f32"), .draft_path = tiny_model("draft_padded"), .max_batch = 64});
  ASSERT_NE(engine, nullptr);
  expect_main_models_distribution(*engine, "I think", 40000);
}

}  // namespace
}  // namespace bass::testing
