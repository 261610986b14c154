// Drafting and verification on an emulated GPU: what the CPU executor's rules give, for every processor, rule and kind
// of draft.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/device_testing.h"
#include "kernels/cuda/sampling/sampling_kernels.h"
#include "kernels/cuda/sampling/sampling_testing.h"
#include "kernels/sampling/distribution.h"

namespace bass::cuda {
namespace {

using testing::all_devices;
using testing::cpu_kernels;
using testing::DeviceArray;
using testing::random_logits;
using testing::same_float;

/// A request's parameters in the host's memory.
struct Request {
  SamplingParams params;
  std::vector<LogitBias> bias;
  std::vector<TokenId> banned;
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
  std::vector<float> main_logits;   // [n_drafted + 1, n]
  std::vector<float> draft_logits;  // [n_drafted, n]; empty: the drafts are the host's
  std::vector<TokenId> drafted;
  std::vector<TokenId> draft_ids;  // ProposableTokens; empty: all
  std::vector<uint32_t> allowed;   // [n_drafted + 1, n_words]; empty: a grammar allows all
  size_t n_vocabulary = 0;
  int n_drafted = 0;
  uint32_t round_start = 0;

  [[nodiscard]] ProposableTokens tokens(const TokenId* ids) const { return {{ids, draft_ids.size()}, n_vocabulary}; }
  [[nodiscard]] size_t n_words() const { return allowed.size() / static_cast<size_t>(n_drafted + 1); }
  [[nodiscard]] int n_entries(int n) const { return draft_ids.empty() ? n : static_cast<int>(draft_ids.size()); }
  [[nodiscard]] bool stores() const {
    return !draft_logits.empty() && normalise_for_verification(params) == Normalise::kYes;
  }
};

// Of rows with drafted tokens something is always left.
std::vector<uint32_t> random_masks(int n_rows, int n_tokens, std::mt19937& random) {
  const int n_words = (n_tokens + 31) / 32;
  std::vector<uint32_t> masks;
  for (int row = 0; row < n_rows; ++row) {
    for (int word = 0; word < n_words; ++word) {
      const auto bits = static_cast<uint32_t>(random());
      const bool is_last = word + 1 == n_words;
      masks.push_back(is_last && row + 1 < n_rows ? ~0u : bits % 5 == 0 ? 0u : bits % 5 == 1 ? ~0u : bits);
    }
  }
  return masks;
}

Request random_request(int n, std::mt19937& random) {
  const auto one_in = [&](unsigned k) { return random() % k == 0; };
  const auto token = [&] { return static_cast<TokenId>(random() % static_cast<unsigned>(n)); };
  Request r;
  constexpr VerifyRule kRules[] = {VerifyRule::kMatch, VerifyRule::kRejection, VerifyRule::kBlock};
  r.params.rule = kRules[random() % 3];
  r.params.temperature = one_in(6) ? 0.0f : one_in(2) ? 1.0f : 0.3f + static_cast<float>(random() % 20) / 10;
  if (one_in(3)) r.params.top_k = 1 + static_cast<int32_t>(random() % static_cast<unsigned>(n));
  if (one_in(3)) r.params.top_p = static_cast<float>(1 + random() % 99) / 100;
  if (one_in(4)) r.params.min_p = static_cast<float>(1 + random() % 50) / 200;
  if (one_in(4)) r.params.repetition_penalty = 1.3f;
  if (one_in(4)) r.params.presence_penalty = 0.4f;
  if (one_in(4)) r.params.frequency_penalty = 0.2f;
  if (one_in(4)) {
    for (int i = 0; i < 5; ++i) r.bias.push_back({token(), static_cast<float>(i) - 1.5f});
    r.bias.push_back(r.bias.front());
  }
  if (one_in(4)) {
    for (int i = 0; i < 4; ++i) r.banned.push_back(i < 2 ? i : token());
    r.params.n_banned_early = static_cast<int32_t>(random() % 5);
    r.params.n_early = static_cast<int32_t>(random() % 4);
  }
  for (int i = 0; i < 20; ++i) r.prompt.push_back(token());
  for (int i = 0; i < 9; ++i) r.output.push_back(token());
  r.params.seed = random();
  r.params.sample_idx = static_cast<uint32_t>(random() % 4);
  r.n_drafted = static_cast<int>(random() % 5);
  r.round_start = static_cast<uint32_t>(30 + random() % 100);
  r.main_logits = random_logits(static_cast<size_t>((r.n_drafted + 1) * n), random, 2.0f);
  if (one_in(4)) r.allowed = random_masks(r.n_drafted + 1, n, random);
  if (one_in(8)) r.main_logits[random() % r.main_logits.size()] = one_in(2) ? NAN : INFINITY;
  if (one_in(3)) {
    for (int i = 0; i < r.n_drafted; ++i) r.drafted.push_back(token());
    return r;
  }
  r.drafted.resize(static_cast<size_t>(r.n_drafted));
  r.draft_logits = r.main_logits;
  r.draft_logits.resize(static_cast<size_t>(r.n_drafted * n));
  std::normal_distribution<float> normal(0.0f, 0.5f);
  for (float& x : r.draft_logits) x = std::isfinite(x) ? x + normal(random) : 0.0f;
  if (one_in(2)) return r;
  for (TokenId id = 0; id < n; ++id) {
    if (!one_in(3)) r.draft_ids.push_back(id);
  }
  r.n_vocabulary = r.draft_ids.size() - r.draft_ids.size() / 4;  // the others stand beside it, ascending too
  std::vector<TokenId> vocabulary, beside;
  for (size_t i = 0; i < r.draft_ids.size(); ++i) (i % 4 == 3 ? beside : vocabulary).push_back(r.draft_ids[i]);
  r.n_vocabulary = vocabulary.size();
  r.draft_ids = vocabulary;
  r.draft_ids.insert(r.draft_ids.end(), beside.begin(), beside.end());
  return r;
}

/// What the CPU executor makes of a round.
struct CpuRound {
  std::vector<TokenId> drafted;
  std::vector<RowVerdict> emitted;
  std::vector<float> chances;
};

class CpuSampling {
 public:
  CpuSampling(const Request& request, int n)
      : r_(request), n_(n), sampler_(&cpu_kernels(), n), p_sampler_(&cpu_kernels(), n) {
    r_.params.bias = request.bias.data();
    r_.params.n_bias = static_cast<int32_t>(request.bias.size());
    r_.params.banned = request.banned.data();
    r_.params.n_banned = static_cast<int32_t>(request.banned.size());
  }

  CpuRound run() {
    CpuRound round;
    round.drafted = r_.drafted;
    if (!r_.draft_logits.empty()) draft(&round);
    return is_judged_as_block(r_.params) ? judge(round) : verify(round);
  }

 private:
  struct Row {
    RowDistribution p, q;
    DraftedToken draft;
  };

  [[nodiscard]] TokenHistory history(const CpuRound& round, int n_drafts) const {
    const auto n = static_cast<size_t>(n_drafts);
    const uint32_t* allowed = r_.allowed.empty() ? nullptr : r_.allowed.data() + n * r_.n_words();
    return {r_.prompt, r_.output, std::span<const TokenId>(round.drafted).first(n), allowed};
  }
  [[nodiscard]] RoundPosition at(int idx) const {
    return {r_.round_start + static_cast<uint32_t>(idx), r_.round_start};
  }
  [[nodiscard]] const float* logits(int idx) const { return r_.main_logits.data() + idx * n_; }

  void draft(CpuRound* round) {
    const ProposableTokens tokens = r_.tokens(r_.draft_ids.data());
    const int n_entries = r_.n_entries(n_);
    for (int i = 0; i < r_.n_drafted; ++i) {
      RowDistribution q = sampler_.build(r_.draft_logits.data() + i * n_, n_entries, r_.params, history(*round, i),
                                         Normalise::kNo, tokens);
      stored_.emplace_back(static_cast<size_t>(n_entries));
      if (r_.stores()) q = store_draft_row(sampler_, q, stored_.back().data());
      round->drafted[static_cast<size_t>(i)] = draft_token(cpu_kernels(), q, r_.params, at(i));
    }
  }

  void load(const CpuRound& round, int idx, Row* row) {
    const bool is_extra = idx == r_.n_drafted;
    row->draft = {};
    if (!is_extra) row->draft.token = round.drafted[static_cast<size_t>(idx)];
    if (!is_extra && r_.stores()) {
      row->q = load_draft_row(sampler_, stored_[static_cast<size_t>(idx)].data(), n_, r_.tokens(r_.draft_ids.data()));
      row->draft.q = &row->q;
    }
    row->p = sampler_.build(logits(idx), n_, r_.params, history(round, idx),
                            is_extra ? Normalise::kNo : normalise_for_verification(r_.params));
  }

  CpuRound verify(CpuRound round) {
    for (int k = 0;; ++k) {
      Row row;
      load(round, k, &row);
      if (k == r_.n_drafted) {
        round.emitted.push_back(regular_row(sampler_, row.p, logits(k), r_.params, at(k).position));
        return round;
      }
      if (normalise_for_verification(r_.params) == Normalise::kYes) {
        round.chances.push_back(static_cast<float>(acceptance_chance(sampler_, row.p, row.draft)));
      }
      round.emitted.push_back(verify_row(sampler_, row.p, logits(k), r_.params, at(k), row.draft));
      if (!round.emitted.back().accepted) return round;
    }
  }

  CpuRound judge(CpuRound round) {
    BlockRound block;
    std::vector<RowVerdict> verdicts;
    for (int k = 0; k <= r_.n_drafted && !block.is_over(); ++k) {
      if (k == r_.n_drafted) {
        judge_last_block_row(r_.params, at(k), &block);
        break;
      }
      Row row;
      load(round, k, &row);
      const BlockRow seen = look_at_block_row(row.p, logits(k), row.draft);
      round.chances.push_back(static_cast<float>(acceptance_chance(sampler_, row.p, row.draft)));
      const double mass =
          needs_residual_mass(r_.params, at(k), block) ? residual_mass(sampler_, row.p, block.joint, row.draft) : 0;
      verdicts.push_back(seen.verdict);
      judge_block_row(seen, r_.params, at(k), mass, &block);
    }
    round.emitted.assign(verdicts.begin(), verdicts.begin() + block.n_accepted);
    Row row;
    load(round, block.n_accepted, &row);
    const int k = block.n_accepted;
    round.emitted.push_back(k == r_.n_drafted
                                ? regular_row(sampler_, row.p, logits(k), r_.params, at(k).position)
                                : block_residual(sampler_, row.p, logits(k), r_.params, at(k), row.draft, block));
    return round;
  }

  Request r_;
  int n_;
  RowSampler sampler_;
  RowSampler p_sampler_;
  std::vector<std::vector<uint16_t>> stored_;
};

/// What a sequence emits, from what the device says of a round's rows.
struct DeviceRound {
  std::vector<RowVerdict> emitted;
  std::vector<float> chances;  // of drafted tokens, as far as verification has looked at them
};

DeviceRound collect(const SequenceTask& task, int n_drafted, const RowOutcome* rows, const JudgedRound& judged) {
  const bool is_block = is_judged_as_block(task.params);
  DeviceRound round;
  for (int k = 0; k == 0 || (k <= n_drafted && round.emitted.back().accepted); ++k) {
    const bool stops = is_block && k == judged.round.n_accepted;
    round.emitted.push_back(stops ? judged.stop : rows[k].verdict);
  }
  if (normalise_for_verification(task.params) == Normalise::kNo) return round;
  double joint = 1;
  for (int k = 0; k < n_drafted && joint > 0; ++k) {
    round.chances.push_back(rows[k].chance);
    const bool is_accepted = static_cast<size_t>(k) + 1 < round.emitted.size();
    joint = is_block ? next_joint(joint, rows[k].p_x, rows[k].q_x) : is_accepted ? 1 : 0;
  }
  return round;
}

/// The same requests on a device.
class DeviceRounds {
 public:
  DeviceRounds(Device* device, const std::vector<Request>& requests, int n) : device_(device), n_(n) {
    for (const Request& r : requests) add(r);
  }

  std::vector<DeviceRound> run(const std::vector<Request>& requests, int block_rows) {
    const DeviceArray<SequenceTask> tasks(device_, tasks_);
    draft(requests, tasks.data());
    return verify(requests, tasks.data(), block_rows);
  }

  std::vector<TokenId> drafted(size_t i) const { return drafted_[i]->read(); }

 private:
  template <class T>
  T* keep(const std::vector<T>& values) {
    auto array = std::make_shared<DeviceArray<T>>(device_, values);
    T* data = array->data();
    kept_.push_back(std::move(array));
    return values.empty() ? nullptr : data;
  }

  void add(const Request& r) {
    SequenceTask task;
    task.params = r.params;
    task.params.bias = keep(r.bias);
    task.params.n_bias = static_cast<int32_t>(r.bias.size());
    task.params.banned = keep(r.banned);
    task.params.n_banned = static_cast<int32_t>(r.banned.size());
    task.prompt = {keep(r.prompt), r.prompt.size()};
    task.output = {keep(r.output), r.output.size()};
    task.round_start = r.round_start;
    std::vector<TokenId> drafted = r.drafted;
    drafted.resize(kMaxRoundDrafts, -1);
    drafted_.push_back(std::make_shared<DeviceArray<TokenId>>(device_, drafted));
    task.drafted = drafted_.back()->data();
    if (r.stores()) task.stored = keep(std::vector<uint16_t>(static_cast<size_t>(kMaxRoundDrafts * n_), 0xFFFF));
    task.stored_stride = n_;
    task.tokens = r.tokens(keep(r.draft_ids));
    if (r.draft_ids.empty()) task.tokens = {};
    task.n_draft_tokens = n_;
    tasks_.push_back(task);
    masks_.push_back(keep(r.allowed));
  }
  const uint32_t* allowed(const Request& r, size_t request_idx, int idx) const {
    return r.allowed.empty() ? nullptr : masks_[request_idx] + static_cast<size_t>(idx) * r.n_words();
  }

  LogitsBlock logits_block(const std::vector<float>& logits) {
    LogitsBlock block;
    const size_t n_rows = logits.size() / static_cast<size_t>(n_);
    block.logits = keep(logits);
    block.stride = n_;
    block.n_rows = static_cast<int32_t>(n_rows);
    block.n_tokens = n_;
    block.scratch = keep(std::vector<float>(n_rows * 3 * static_cast<size_t>(n_), NAN));
    block.keys = keep(std::vector<uint64_t>(n_rows * static_cast<size_t>(n_), 77));
    block.scratch_len = n_;
    return block;
  }

  void draft(const std::vector<Request>& requests, const SequenceTask* tasks) {
    for (int idx = 0; idx < kMaxRoundDrafts; ++idx) {
      std::vector<float> logits;
      std::vector<DraftTask> rows;
      for (size_t i = 0; i < requests.size(); ++i) {
        const Request& r = requests[i];
        if (r.draft_logits.empty() || r.n_drafted <= idx) continue;
        logits.insert(logits.end(), r.draft_logits.begin() + idx * n_, r.draft_logits.begin() + (idx + 1) * n_);
        rows.push_back({static_cast<int32_t>(i), allowed(r, i, idx)});
      }
      if (rows.empty()) return;
      const DraftRows kernel{logits_block(logits), tasks, keep(rows), idx};
      launch(*device_, kernel, kernel.shape());
    }
  }

  std::vector<DeviceRound> verify(const std::vector<Request>& requests, const SequenceTask* tasks, int block_rows) {
    std::vector<RowTask> rows;
    std::vector<size_t> first_rows;
    std::vector<float> logits;
    for (size_t i = 0; i < requests.size(); ++i) {
      first_rows.push_back(rows.size());
      for (int k = 0; k <= requests[i].n_drafted; ++k) {
        rows.push_back({.sequence = static_cast<int32_t>(i),
                        .idx = k,
                        .is_extra = k == requests[i].n_drafted,
                        .allowed = allowed(requests[i], i, k)});
      }
      logits.insert(logits.end(), requests[i].main_logits.begin(), requests[i].main_logits.end());
    }
    const DeviceArray<RowOutcome> row_outcomes(device_, std::vector<RowOutcome>(rows.size()));
    RowOutcome* outcomes = row_outcomes.data();
    int32_t* last_rows = keep(std::vector<int32_t>(requests.size(), INT32_MAX));
    const DeviceArray<JudgedRound> judged_rounds(device_, std::vector<JudgedRound>(requests.size()));
    JudgedRound* judged = judged_rounds.data();
    for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(block_rows)) {
      const size_t end = std::min(rows.size(), begin + static_cast<size_t>(block_rows));
      const auto first = static_cast<ptrdiff_t>(begin), last = static_cast<ptrdiff_t>(end);
      const LogitsBlock block = logits_block({logits.begin() + first * n_, logits.begin() + last * n_});
      const RowTask* block_tasks = keep(std::vector<RowTask>(rows.begin() + first, rows.begin() + last));
      const VerifyRows kernel{block, tasks, block_tasks, outcomes + begin, last_rows};
      launch(*device_, kernel, kernel.shape());
      std::vector<RoundTask> rounds;
      for (size_t i = begin; i < end; ++i) {
        if (!is_judged_as_block(requests[static_cast<size_t>(rows[i].sequence)].params)) continue;
        if (rows[i].idx == 0 || i == begin) rounds.push_back({rows[i].sequence, static_cast<int32_t>(i - begin), 0});
        ++rounds.back().n_rows;
      }
      if (rounds.empty()) continue;
      const WeighRows weigh{block, tasks, block_tasks, outcomes + begin, judged};
      launch(*device_, weigh, weigh.shape());
      const JudgeRounds judge{
          block, tasks, block_tasks, outcomes + begin, keep(rounds), judged, static_cast<int32_t>(rounds.size())};
      launch(*device_, judge, judge.shape());
    }
    const std::vector<RowOutcome> told = row_outcomes.read();
    const std::vector<JudgedRound> told_rounds = judged_rounds.read();
    std::vector<DeviceRound> results;
    for (size_t i = 0; i < requests.size(); ++i) {
      results.push_back(collect(tasks_[i], requests[i].n_drafted, told.data() + first_rows[i], told_rounds[i]));
    }
    return results;
  }

  Device* device_;
  int n_;
  std::vector<SequenceTask> tasks_;
  std::vector<const uint32_t*> masks_;  // of each request
  std::vector<std::shared_ptr<DeviceArray<TokenId>>> drafted_;
  std::vector<std::shared_ptr<void>> kept_;
};

void expect_rounds_of_the_cpu(const std::vector<Request>& requests, int n, int block_rows, int* n_accepted) {
  for (const std::unique_ptr<Device>& device : all_devices()) {
    DeviceRounds rounds(device.get(), requests, n);
    const std::vector<DeviceRound> results = rounds.run(requests, block_rows);
    for (size_t i = 0; i < requests.size(); ++i) {
      const CpuRound expected = CpuSampling(requests[i], n).run();
      const std::vector<TokenId> drafted = rounds.drafted(i);
      for (size_t k = 0; k < expected.drafted.size(); ++k) EXPECT_EQ(drafted[k], expected.drafted[k]) << i << ", " << k;
      ASSERT_EQ(results[i].emitted.size(), expected.emitted.size()) << i;
      for (size_t k = 0; k < expected.emitted.size(); ++k) {
        EXPECT_EQ(results[i].emitted[k].token, expected.emitted[k].token) << i << ", " << k;
        EXPECT_TRUE(same_float(results[i].emitted[k].logprob, expected.emitted[k].logprob)) << i << ", " << k;
        EXPECT_EQ(results[i].emitted[k].is_degenerate, expected.emitted[k].is_degenerate) << i << ", " << k;
      }
      ASSERT_LE(results[i].chances.size(), expected.chances.size()) << i;
      for (size_t k = 0; k < results[i].chances.size(); ++k) {
        EXPECT_TRUE(same_float(results[i].chances[k], expected.chances[k])) << i << ", " << k;
      }
      *n_accepted += static_cast<int>(results[i].emitted.size()) - 1;
    }
  }
}

TEST(GpuRounds, AreTheCpusForEveryProcessorAndRule) {
  std::mt19937 random(5);
  int n_accepted = 0;
  for (const int n : {40, 300, 5000}) {
    std::vector<Request> requests;
    for (int i = 0; i < (n > 1000 ? 16 : 80); ++i) requests.push_back(random_request(n, random));
    expect_rounds_of_the_cpu(requests, n, 64, &n_accepted);
  }
  EXPECT_GT(n_accepted, 60);
}

TEST(GpuRounds, RoundsThatSpanBlocksOfLogitsAreTheSame) {
  std::mt19937 random(6);
  std::vector<Request> requests;
  for (int i = 0; i < 25; ++i) {
    requests.push_back(random_request(60, random));
    requests.back().params.rule = VerifyRule::kBlock;
    if (requests.back().params.is_greedy()) requests.back().params.temperature = 0.8f;
  }
  int n_accepted = 0;
  for (const int block_rows : {1, 3, 64}) expect_rounds_of_the_cpu(requests, 60, block_rows, &n_accepted);
  EXPECT_GT(n_accepted, 20);
}

// A grammar may leave no token that the draft model knows.
TEST(GpuRounds, NothingIsDraftedWhereNothingMayStand) {
  constexpr int kTokens = 200;
  const std::vector<TokenId> known{3, 70, 150};
  for (const std::unique_ptr<Device>& device : all_devices()) {
    for (const bool knows_one : {false, true}) {
      std::vector<uint32_t> mask((kTokens + 31) / 32, ~0u);
      for (const TokenId id : known) mask[static_cast<size_t>(id / 32)] &= ~(1u << id % 32);
      if (knows_one) mask[70 / 32] |= 1u << 70 % 32;
      const DeviceArray<uint32_t> allowed(device.get(), mask);
      const DeviceArray<float> logits(device.get(), {5.0f, 1.0f, 2.0f});
      const DeviceArray<float> scratch(device.get(), std::vector<float>(3 * kTokens));
      const DeviceArray<uint64_t> keys(device.get(), std::vector<uint64_t>(kTokens));
      const DeviceArray<TokenId> ids(device.get(), known);
      const DeviceArray<TokenId> drafted(device.get(), std::vector<TokenId>(kMaxRoundDrafts, 9));
      SequenceTask task;
      task.drafted = drafted.data();
      task.tokens = {{ids.data(), known.size()}, known.size()};
      const DeviceArray<SequenceTask> tasks(device.get(), {task});
      const DeviceArray<DraftTask> rows(device.get(), {{0, allowed.data()}});
      const DraftRows kernel{
          {logits.data(), 3, 1, kTokens, scratch.data(), keys.data(), kTokens}, tasks.data(), rows.data(), 0};
      launch(*device, kernel, kernel.shape());
      EXPECT_EQ(drafted.read()[0], knows_one ? 70 : kNoDraft);
    }
  }
}

TEST(GpuRounds, RowsAreScored) {
  constexpr int kTokens = 777;
  constexpr int kTop = 5;
  std::mt19937 random(8);
  std::vector<float> logits = random_logits(5 * kTokens, random);
  logits[2 * kTokens + 5] = NAN;
  // Of many nearly equal logits, whose log-probabilities are equal, the highest come first.
  for (int i = 0; i < kTokens; ++i) logits[3 * kTokens + i] = 0.5f;
  logits[3 * kTokens + 700] = std::nextafter(0.5f, 1.0f);
  for (int i = 0; i < kTokens; ++i) logits[4 * kTokens + i] = i % 300 == 7 ? 1.0f : -INFINITY;  // three have a chance
  for (const std::unique_ptr<Device>& device : all_devices()) {
    const DeviceArray<float> rows(device.get(), logits);
    const DeviceArray<float> scratch(device.get(), std::vector<float>(15 * kTokens));
    const DeviceArray<uint64_t> keys(device.get(), std::vector<uint64_t>(5 * kTokens));
    const DeviceArray<TopToken> tops(device.get(), std::vector<TopToken>(5 * kTop, {1, 1.0f}));
    const auto top_of = [&](size_t row) { return tops.data() + row * kTop; };
    const DeviceArray<RowTask> tasks(device.get(),
                                     {{.kind = RowKind::kTarget, .target = 12, .n_top = kTop, .top = top_of(0)},
                                      {.kind = RowKind::kTop, .n_top = kTop, .top = top_of(1)},
                                      {.kind = RowKind::kTarget, .target = 3},
                                      {.kind = RowKind::kTop, .n_top = kTop, .top = top_of(3)},
                                      {.kind = RowKind::kTop, .n_top = kTop, .top = top_of(4)}});
    const DeviceArray<RowOutcome> outcomes(device.get(), std::vector<RowOutcome>(5));
    const VerifyRows kernel{{rows.data(), kTokens, 5, kTokens, scratch.data(), keys.data(), kTokens},
                            nullptr,
                            tasks.data(),
                            outcomes.data(),
                            nullptr};
    launch(*device, kernel, kernel.shape());
    const std::vector<RowOutcome> found = outcomes.read();
    const cpu::RowStats stats = cpu_kernels().row_stats(logits.data(), kTokens);
    EXPECT_TRUE(same_float(found[0].verdict.logprob, logits[12] - stats.log_sum_exp));
    EXPECT_EQ(found[0].verdict.token, stats.argmax);
    EXPECT_TRUE(found[2].verdict.is_degenerate);
    const std::vector<TopToken> told = tops.read();
    for (const size_t row : {0, 1, 3, 4}) {
      const float* top_row = logits.data() + row * kTokens;
      const cpu::RowStats of_row = cpu_kernels().row_stats(top_row, kTokens);
      RowSampler sampler(&cpu_kernels(), kTokens);
      const auto expected = sampler.largest(top_row, kTokens, of_row.max, kTop);
      const TopToken* top = told.data() + row * kTop;
      for (size_t k = 0; k < expected.size(); ++k) {
        EXPECT_EQ(top[k].id, expected[k].id) << row << ", " << k;
        EXPECT_TRUE(same_float(top[k].logprob, expected[k].z - of_row.log_sum_exp)) << row << ", " << k;
      }
      if (expected.size() < kTop) {
        EXPECT_EQ(top[expected.size()].id, -1);
      }
    }
    EXPECT_EQ(told[2 * kTop].id, 1) << "nobody has asked";
    EXPECT_EQ(told[3 * kTop].id, 700);
    EXPECT_EQ(told[4 * kTop + 3].id, -1) << "three have a chance";
  }
}

}  // namespace
}  // namespace bass::cuda
