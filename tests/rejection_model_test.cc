// `rejection` and `block` draw from the main model's distribution with draft-length policies switched on: the
// frequencies of three tokens, jointly and position by position, with top-k, top-p and a presence penalty on, against
// the probabilities that scoring gives (chi-square). The default model shows it on real text, a tiny one with more
// draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>

#include "support/engine_run.h"
#include "support/timed_executor.h"

namespace bass::testing {
namespace {

constexpr int kTopK = 4;  // fewer than the tokens that scoring reports: penalised ones change places
constexpr float kTopP = 0.9f;
constexpr float kPresencePenalty = 0.8f;
constexpr int kCounted = 3;           // tokens of a draw that are looked at
constexpr TokenId kLastEndToken = 2;  // of the models used here; end tokens are banned
// Standard deviations of a normal distribution, as which chi_square_z is distributed: passed by chance about 3 times in
// a million, so once in 7,000 seeds by any of the 48 comparisons here. Seeds are fixed; what still differs from run to
// run are the lengths that `goodput` chooses by the clock.
constexpr double kMaxZ = 4.5;
constexpr int kLeastDraws = 20000;  // for each rule
// A part of the draws each: a request has a policy of its own, which all of its samples share.
const char* const kDraftLengths[] = {"survival", "goodput", "bass:l0=3,inc=1,max=4", "fixed:3"};

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
  std::map<Tokens, int> counts;                // of the first three tokens
  std::vector<std::map<Tokens, int>> by_part;  // the same of each policy's draws
  int n_draws = 0;
  Tokens prompt;
  SpeculationStats stats;
};

/// How many draws there are, and in which batches.
struct Draws {
  int n_of_policy = 0;  // of each
  int max_tokens = 0;   // at least kCounted; more are drafted for and not counted
  /// Samples of a request, which runs alone: nobody waits for their places, so that tokens are worth different amounts
  /// (speculation/token_worth.h). 0: all in one request, and all requests together, so that batches are mixed where one
  /// follows the other.
  int n_together = 0;
  bool is_timed = false;  // steps take what the test says, so that `goodput` drafts on any machine
};

Request request_of(const char* prompt, VerifyRule rule, const char* draft_length, const Draws& draws) {
  Request request;
  request.prompt = prompt;
  request.n = draws.n_together > 0 ? draws.n_together : draws.n_of_policy;
  request.max_tokens = draws.max_tokens;
  request.sampling = {
      .temperature = 1.0f, .top_p = kTopP, .top_k = kTopK, .presence_penalty = kPresencePenalty, .ignore_eos = true};
  request.speculation = {.drafter = DrafterChoice::kModel, .draft_length = draft_length, .verify = rule};
  return request;
}

// All samples of a request, as if there had been one.
RequestResult run_one_by_one(Engine& engine, Request request, int n_requests) {
  RequestResult all;
  for (int i = 0; i < n_requests; ++i) {
    ++*request.seed;
    RequestResult result = run_one(engine, request);
    std::move(result.choices.begin(), result.choices.end(), std::back_inserter(all.choices));
    all.prompt = std::move(result.prompt);
  }
  return all;
}

// More than so many tokens show something. `goodput` drafts where that pays: in steps that take what the test says,
// mostly; else perhaps nowhere.
int drafted_at_least(std::string_view draft_length, const Draws& draws) {
  if (draft_length != "goodput") return draws.n_of_policy;
  return draws.is_timed ? draws.n_of_policy / 20 : -1;
}

Drawn draw(Engine& engine, const char* prompt, VerifyRule rule, const Draws& draws) {
  std::vector<Request> requests;
  for (const char* draft_length : kDraftLengths) {
    requests.push_back(request_of(prompt, rule, draft_length, draws));
    requests.back().seed = 2024 + 1000000 * requests.size();
  }
  engine.reset_stats();
  std::vector<RequestResult> results;
  if (draws.n_together == 0) results = run_all(engine, requests);
  for (size_t i = results.size(); i < requests.size(); ++i) {
    results.push_back(run_one_by_one(engine, requests[i], draws.n_of_policy / draws.n_together));
  }
  Drawn drawn{{}, {}, 0, results.front().prompt.prompt_tokens, engine.stats().speculation};
  for (size_t i = 0; i < results.size(); ++i) {
    int64_t n_drafted = 0;
    std::map<Tokens, int>& part = drawn.by_part.emplace_back();
    for (const ChoiceResult& choice : results[i].choices) {
      const Tokens tokens{choice.tokens.begin(), choice.tokens.begin() + kCounted};
      ++drawn.counts[tokens];
      ++part[tokens];
      ++drawn.n_draws;
      n_drafted += choice.stats.speculation.drafted;
    }
    std::printf("%s: %lld drafted\n", kDraftLengths[i], static_cast<long long>(n_drafted));
    EXPECT_GT(n_drafted, drafted_at_least(kDraftLengths[i], draws))
        << kDraftLengths[i] << " drafted little: the test proves nothing about it";
  }
  return drawn;
}

void expect_main_models_distribution(Engine& engine, const char* prompt, const Draws& draws) {
  std::vector<Drawn> all;
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock}) {
    all.push_back(draw(engine, prompt, rule, draws));
  }
  EXPECT_NE(all[0].counts, all[1].counts) << "the rules decided alike: the test proves nothing about one of them";

  const Distribution expected = expected_distribution(engine, all[0].prompt, 1.0);
  const Distribution flatter = expected_distribution(engine, all[0].prompt, 1.2);
  for (const Drawn& drawn : all) {
    EXPECT_GT(drawn.stats.accepted, drawn.stats.drafted / 20);
    EXPECT_LT(drawn.stats.accepted, drawn.stats.drafted * 19 / 20) << "nothing was rejected: the test proves nothing";
    const double z = chi_square_z(expected, drawn.counts, drawn.n_draws);
    EXPECT_GE(drawn.n_draws, kLeastDraws);
    EXPECT_LT(z, kMaxZ) << "jointly";
    for (size_t i = 0; i < drawn.by_part.size(); ++i) {
      EXPECT_LT(chi_square_z(expected, drawn.by_part[i], draws.n_of_policy), kMaxZ) << kDraftLengths[i] << ", jointly";
    }
    for (int i = 0; i < kCounted; ++i) {
      const double z_i = chi_square_z(marginal(expected, i), marginal(drawn.counts, i), drawn.n_draws);
      EXPECT_LT(z_i, kMaxZ) << "position " << i;
    }
    // Negative control: draws from a distribution that is only a little flatter would be found.
    EXPECT_GT(chi_square_z(flatter, drawn.counts, drawn.n_draws), kMaxZ);
    std::printf("%d draws: chi-square z %.2f, %.3f accepted a round\n", drawn.n_draws, z,
                static_cast<double>(drawn.stats.accepted) / static_cast<double>(drawn.stats.rounds));
  }
}

// Of the draft that comes with the model.
TEST(Lossless, ThreeTokensOfTheDefaultModelHaveItsDistribution) {
  auto engine =
      load_engine({.model_path = default_model(), .draft_path = shipped_draft(), .max_batch = 128, .context_len = 256});
  ASSERT_NE(engine, nullptr);
  expect_main_models_distribution(*engine, "My favourite thing about the summer is", {5000, kCounted + 1});
}

// Steps take long beside what rows and drafts add, so that drafts pay on every machine and `goodput` drafts.
void expect_tiny_models_distribution(EngineOptions options, Draws draws) {
  draws.is_timed = true;
  options.model_path = tiny_model("tiny_gqa_tied_f32");
  options.draft_path = tiny_model("draft_padded");
  options.n_threads = 1;
  const Pace pace = constant_pace(2e-4 + 1e-4 * options.max_batch);
  auto engine = load_timed_engine(options, &pace);
  ASSERT_NE(engine, nullptr);
  expect_main_models_distribution(*engine, "I think", draws);
}

TEST(Lossless, ThreeTokensOfATinyModelHaveItsDistribution) {
  expect_tiny_models_distribution({.max_batch = 64}, {10000, kCounted + 1});
}

TEST(Lossless, SamplesThatAreWantedTogetherHaveTheTinyModelsDistribution) {
  expect_tiny_models_distribution({.max_batch = 5}, {5000, 2 * kCounted, 5});
}

}  // namespace
}  // namespace bass::testing
