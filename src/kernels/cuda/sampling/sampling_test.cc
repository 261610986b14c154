// Vocabulary rows, drafting and verification on an emulated GPU: the bits of the CPU's kernels and of the CPU
// executor's rules, for every processor, rule and kind of draft.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "kernels/cuda/device_testing.h"
#include "kernels/cuda/sampling/sampling_kernels.h"
#include "kernels/sampling/distribution.h"

namespace bass::cuda {
namespace {

using testing::all_devices;
using testing::DeviceArray;

const cpu::Kernels& cpu_kernels() { return *cpu::find_kernels(cpu::Isa::kScalar); }

std::vector<float> random_logits(size_t n, std::mt19937& random, float deviation = 3.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> logits(n);
  // Half of them on a coarse grid, so that there are equal ones.
  for (float& x : logits) x = random() % 2 == 0 ? normal(random) : std::round(normal(random) * 2) / 2;
  return logits;
}

bool same_float(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0 || (a != a && b != b); }

// ---------------------------------------------------------------------------------------------------------------------
// The functions of a row

struct RowAnswers {
  cpu::RowStats stats;
  float mass;
  int32_t drawn;
  int32_t drawn_of;
  int32_t residual;
  float overlap;
  float overlap_of;
};

/// Asks every function of row_functions.h.
struct AskRow {
  static constexpr const char* kName = "ask_row";
  static constexpr int kMaxThreads = kRowBlockThreads;
  static constexpr bool kCooperates = true;
  cpu::ProbabilityRow p;
  cpu::ProbabilityRow q;
  cpu::ProbabilityRow q_of;
  const int32_t* ids;  // of q_of's entries
  float factor;
  RandomStream stream;
  RowAnswers* answers;
  template <class Context>
  void operator()(Context& context) const {
    RowBlock<Context> block(context);
    RowAnswers found;
    found.stats = row_stats(block, p.z, p.n);
    found.mass = kept_mass(block, p.z, p.n, found.stats.max, p.kept);
    found.drawn = gumbel_argmax(block, p.z, nullptr, p.n, p.kept, stream);
    found.drawn_of = gumbel_argmax(block, q_of.z, ids, q_of.n, q_of.kept, stream);
    found.residual = residual_argmax(block, p, factor, q, stream);
    found.overlap = overlap(block, p, factor, q, nullptr);
    found.overlap_of = overlap(block, p, factor, q_of, ids);
    if (context.thread() == 0) *answers = found;
  }
};

RandomStream stream_of(unsigned seed) { return {99 + seed, 17, 3, RandomPurpose::kResidual, 2}; }

void expect_row_functions(const std::vector<float>& p_z, const std::vector<float>& q_z, const cpu::KeptSet& kept,
                          unsigned seed, const EmulatorOptions& options) {
  std::mt19937 random(seed);
  const auto n = static_cast<int>(p_z.size()), n_q = static_cast<int>(q_z.size());
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) ids[static_cast<size_t>(i)] = i;
  std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(static_cast<size_t>(n_q));
  const RandomStream stream = stream_of(seed);
  const cpu::Kernels& cpu = cpu_kernels();
  const cpu::RowStats stats = cpu.row_stats(p_z.data(), n);
  const cpu::ProbabilityRow p{p_z.data(), n, kept, stats.log_sum_exp};
  const cpu::ProbabilityRow q{q_z.data(), n_q, {}, cpu.row_stats(q_z.data(), n_q).log_sum_exp};
  RowAnswers found;
  const AskRow kernel{p, q, q, ids.data(), 0.9f, stream, &found};
  SharedBytes bytes;
  RowBlock<NoContext>::count(bytes);
  emulate(emulated_kernel<AskRow>(), &kernel, {{1, 1, 1}, kRowBlockThreads, bytes.bytes()}, options);
  EXPECT_TRUE(same_float(found.stats.max, stats.max));
  EXPECT_EQ(found.stats.argmax, stats.argmax);
  EXPECT_TRUE(same_float(found.stats.log_sum_exp, stats.log_sum_exp)) << n;
  EXPECT_TRUE(same_float(found.mass, cpu.kept_mass(p_z.data(), n, stats.max, kept))) << n;
  EXPECT_EQ(found.drawn, cpu.gumbel_argmax(p_z.data(), n, kept, stream));
  EXPECT_EQ(found.drawn_of, cpu.gumbel_argmax_of(q_z.data(), ids.data(), n_q, {}, stream));
  EXPECT_EQ(found.residual, cpu.residual_argmax(p, 0.9f, q, stream));
  EXPECT_TRUE(same_float(found.overlap, cpu.overlap(p, 0.9f, q, nullptr))) << n;
  EXPECT_TRUE(same_float(found.overlap_of, cpu.overlap(p, 0.9f, q, ids.data()))) << n;
}

TEST(GpuRows, HaveTheBitsOfTheCpuForEveryLength) {
  EmulatorOptions descending;
#if !defined(__SANITIZE_THREAD__)
  descending.order = EmulatorOrder::kDescending;
#endif
  const auto expect_random_row = [](int n, int n_q, const cpu::KeptSet& kept, unsigned seed,
                                    const EmulatorOptions& options) {
    std::mt19937 random(seed);
    const std::vector<float> p_z = random_logits(static_cast<size_t>(n), random);
    expect_row_functions(p_z, random_logits(static_cast<size_t>(n_q), random), kept, seed, options);
  };
  for (const int n : {1,
                      2,
                      15,
                      16,
                      17,
                      31,
                      63,
                      64,
                      65,
                      383,
                      384,
                      385,
                      1000,
                      2047,
                      2048,
                      2049,
                      kTermTile - 1,
                      kTermTile,
                      3073,
                      4096,
                      6144,
                      6145,
                      9001,
                      3 * 6 * 512,
                      2 * kTermTile + 65}) {
    for (unsigned seed = 0; seed < 3; ++seed) {
      expect_random_row(n, n, {}, seed, {});
      expect_random_row(n, (n + 1) / 2, {0.5f, n / 3}, seed, descending);
    }
  }
  expect_random_row(5000, 5000, {100.0f, 0}, 1, {});  // nothing is kept
}

TEST(GpuRows, DrawTheCpusTokenWhereScoresAreNear) {  // what bounds of the noise must not leave out
  constexpr int kTokens = 6001;
  for (unsigned seed = 0; seed < 20; ++seed) {
    // With their noise scores are the same but for the rounding; some are equal, on a grid. Bounds are tight where the
    // noise is large.
    const float lowest = seed % 2 == 0 ? -kInf : 5.0f;
    std::vector<float> p_z(kTokens, -40.0f), low(kTokens, -60.0f);
    for (size_t i = 0; i < kTokens; ++i) {
      const float noise = gumbel_of(stream_of(seed).bits(static_cast<uint32_t>(i)));
      if (noise > lowest) p_z[i] = seed % 4 < 2 ? -noise : std::round(-noise * 4096) / 4096;
    }
    expect_row_functions(p_z, low, {}, seed, {});
    p_z[5000] += 0x1p-12f;
    expect_row_functions(p_z, p_z, {}, seed, {});
  }
}

TEST(GpuRows, DrawTheCpusTokenFromFlatAndFromSteepRows) {
  constexpr int kTokens = 5003;
  for (unsigned seed = 0; seed < 4; ++seed) {
    for (const float step : {0.0f, 1e-3f, -1e-3f, 0.02f, -0.02f, 1.0f, 700.0f}) {
      std::vector<float> p_z(kTokens), q_z(kTokens);
      for (int i = 0; i < kTokens; ++i) {
        p_z[static_cast<size_t>(i)] = step * static_cast<float>(i);
        q_z[static_cast<size_t>(i)] = step * static_cast<float>(i / 2);
      }
      expect_row_functions(p_z, q_z, {}, seed, {});
    }
  }
}

TEST(GpuRows, SayWhichRowsAreUnusable) {
  constexpr float kNan = NAN;
  const std::vector<std::vector<float>> rows = {
      {kNan},       {-kInf},           {kInf},          {-kInf, -kInf, kNan}, {kNan, -kInf, -kInf}, {1, kNan, 3, 3},
      {1, kInf, 3}, {-kInf, 2, 2, -1}, {-1e38f, 3e38f}, {0.0f, -1.0f, 0.0f}};
  for (const std::vector<float>& part : rows) {
    for (const size_t n : {part.size(), size_t{4000}}) {
      std::vector<float> row(n, -kInf);
      std::copy(part.begin(), part.end(), row.end() - static_cast<ptrdiff_t>(part.size()));
      RowAnswers found;
      const AskRow kernel{{row.data(), static_cast<int>(n), {}, 1.0f}, {}, {}, nullptr, 1.0f, stream_of(1), &found};
      SharedBytes bytes;
      RowBlock<NoContext>::count(bytes);
      emulate(emulated_kernel<AskRow>(), &kernel, {{1, 1, 1}, kRowBlockThreads, bytes.bytes()}, {});
      const cpu::RowStats stats = cpu_kernels().row_stats(row.data(), static_cast<int>(n));
      EXPECT_TRUE(same_float(found.stats.max, stats.max));
      EXPECT_EQ(found.stats.argmax, stats.argmax);
      EXPECT_TRUE(same_float(found.stats.log_sum_exp, stats.log_sum_exp));
    }
  }
}

TEST(GpuRows, ShortChainsWouldHaveOtherBits) {  // the negative control of the order of the sums
  std::mt19937 random(1);
  int n_different = 0;
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> z = random_logits(9001, random);
    const cpu::RowStats stats = cpu_kernels().row_stats(z.data(), 9001);
    const float halves = cpu_kernels().kept_mass(z.data(), 4096, stats.max, {}) +
                         cpu_kernels().kept_mass(z.data() + 4096, 9001 - 4096, stats.max, {});
    n_different += same_float(halves, cpu_kernels().kept_mass(z.data(), 9001, stats.max, {})) ? 0 : 1;
  }
  EXPECT_GT(n_different, 5);
}

/// The distribution of one row, with everything that may be asked of it.
struct BuildRow {
  static constexpr const char* kName = "build_row";
  static constexpr int kMaxThreads = kRowBlockThreads;
  static constexpr bool kCooperates = true;
  const float* logits;
  int n;
  SamplingParams params;
  RowScratch scratch;
  RowDistribution* built;
  template <class Context>
  void operator()(Context& context) const {
    BlockSampler<Context> sampler(context, scratch);
    const RowDistribution row = sampler.build(logits, n, params, {}, {.logprob = true, .probabilities = true}, {});
    if (context.thread() == 0) *built = row;
  }
};

void expect_cuts(const std::vector<float>& logits, const SamplingParams& params) {
  const auto n = static_cast<int>(logits.size());
  RowSampler cpu(&cpu_kernels(), n);
  const RowDistribution expected = cpu.build(logits.data(), n, params, {}, Normalise::kYes);
  std::vector<float> z(logits.size());
  std::vector<uint64_t> keys(logits.size());
  RowDistribution found;
  const BuildRow kernel{logits.data(), n, params, {z.data(), nullptr, nullptr, keys.data()}, &found};
  emulate(emulated_kernel<BuildRow>(), &kernel, {{1, 1, 1}, kRowBlockThreads, BlockSampler<NoContext>::shared_bytes()},
          {});
  EXPECT_EQ(found.kept.cut_value, expected.kept.cut_value) << params.top_k << ", " << params.top_p;
  EXPECT_EQ(found.kept.cut_id, expected.kept.cut_id) << params.top_k << ", " << params.top_p;
  EXPECT_TRUE(same_float(found.log_norm, expected.log_norm)) << found.log_norm << ", " << expected.log_norm;
  EXPECT_TRUE(same_float(found.raw_log_sum_exp, expected.raw_log_sum_exp));
  EXPECT_EQ(found.argmax, expected.argmax);
  EXPECT_EQ(found.is_degenerate, expected.is_degenerate);
}

TEST(GpuRows, AreCutWhereTheCpuCutsThem) {
  constexpr int kTokens = 3001;
  std::mt19937 random(4);
  std::vector<std::vector<float>> rows(7, std::vector<float>(kTokens));
  for (size_t i = 0; i < kTokens; ++i) {
    const auto at = static_cast<float>(i);
    rows[0][i] = 0.0f;                                                      // all equal
    rows[1][i] = i % 3 == 0 ? 0.0f : -0.0f;                                 // of both signs
    rows[2][i] = i % 7 == 0 ? 5.0f : 5.0f - 0x1p-20f;                       // hardly different
    rows[3][i] = -at;                                                       // beyond every ring but the last
    rows[4][i] = i % 2 == 0 ? -kInf : at * 1e-3f;                           // banned ones
    rows[5][i] = i == 9 ? 2e38f : i % 2 == 0 ? -2e38f : -3.4e38f;           // distances that are infinite
    rows[6][i] = std::round(static_cast<float>(random() % 4096) / 64) / 4;  // many of each
  }
  rows.push_back(random_logits(kTokens, random));
  for (const std::vector<float>& row : rows) {
    for (const float top_p : {1.0f, 1e-6f, 0.5f, 0.9f, 0.999999f}) {
      for (const int top_k : {0, 1, 40, 1501, 3000}) {
        SamplingParams params;
        params.top_p = top_p;
        params.top_k = top_k;
        expect_cuts(row, params);
        params.temperature = 0.7f;
        params.min_p = 0.01f;
        expect_cuts(row, params);
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Rounds

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
  size_t n_vocabulary = 0;
  int n_drafted = 0;
  uint32_t round_start = 0;

  [[nodiscard]] ProposableTokens tokens(const TokenId* ids) const { return {{ids, draft_ids.size()}, n_vocabulary}; }
  [[nodiscard]] int n_entries(int n) const { return draft_ids.empty() ? n : static_cast<int>(draft_ids.size()); }
  [[nodiscard]] bool stores() const {
    return !draft_logits.empty() && normalise_for_verification(params) == Normalise::kYes;
  }
};

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
  }
  for (int i = 0; i < 20; ++i) r.prompt.push_back(token());
  for (int i = 0; i < 9; ++i) r.output.push_back(token());
  r.params.seed = random();
  r.params.sample_idx = static_cast<uint32_t>(random() % 4);
  r.n_drafted = static_cast<int>(random() % 5);
  r.round_start = static_cast<uint32_t>(30 + random() % 100);
  r.main_logits = random_logits(static_cast<size_t>((r.n_drafted + 1) * n), random, 2.0f);
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
    return {r_.prompt, r_.output, std::span<const TokenId>(round.drafted).first(static_cast<size_t>(n_drafts))};
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

/// The same requests on a device.
class DeviceRounds {
 public:
  DeviceRounds(Device* device, const std::vector<Request>& requests, int n) : device_(device), n_(n) {
    for (const Request& r : requests) add(r);
  }

  std::vector<RoundOutcome> run(const std::vector<Request>& requests, int block_rows) {
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
    task.n_drafted = r.n_drafted;
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
      std::vector<int32_t> sequences;
      for (size_t i = 0; i < requests.size(); ++i) {
        const Request& r = requests[i];
        if (r.draft_logits.empty() || r.n_drafted <= idx) continue;
        logits.insert(logits.end(), r.draft_logits.begin() + idx * n_, r.draft_logits.begin() + (idx + 1) * n_);
        sequences.push_back(static_cast<int32_t>(i));
      }
      if (sequences.empty()) return;
      const DraftRows kernel{logits_block(logits), tasks, keep(sequences), idx};
      launch(*device_, kernel, kernel.shape());
    }
  }

  std::vector<RoundOutcome> verify(const std::vector<Request>& requests, const SequenceTask* tasks, int block_rows) {
    std::vector<RowTask> rows;
    std::vector<int32_t> first_rows;
    std::vector<float> logits;
    for (size_t i = 0; i < requests.size(); ++i) {
      first_rows.push_back(static_cast<int32_t>(rows.size()));
      for (int k = 0; k <= requests[i].n_drafted; ++k)
        rows.push_back({static_cast<int32_t>(i), k, RowKind::kDecode, 0});
      logits.insert(logits.end(), requests[i].main_logits.begin(), requests[i].main_logits.end());
    }
    RowOutcome* outcomes = keep(std::vector<RowOutcome>(rows.size()));
    int32_t* last_rows = keep(std::vector<int32_t>(requests.size(), INT32_MAX));
    JudgedRound* judged = keep(std::vector<JudgedRound>(requests.size()));
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
    const DeviceArray<RoundOutcome> results(device_, std::vector<RoundOutcome>(requests.size()));
    const CollectRounds collect{tasks,  outcomes,       keep(first_rows),
                                judged, results.data(), static_cast<int32_t>(requests.size())};
    launch(*device_, collect, collect.shape());
    return results.read();
  }

  Device* device_;
  int n_;
  std::vector<SequenceTask> tasks_;
  std::vector<std::shared_ptr<DeviceArray<TokenId>>> drafted_;
  std::vector<std::shared_ptr<void>> kept_;
};

void expect_rounds_of_the_cpu(const std::vector<Request>& requests, int n, int block_rows, int* n_accepted) {
  for (const std::unique_ptr<Device>& device : all_devices()) {
    DeviceRounds rounds(device.get(), requests, n);
    const std::vector<RoundOutcome> results = rounds.run(requests, block_rows);
    for (size_t i = 0; i < requests.size(); ++i) {
      const CpuRound expected = CpuSampling(requests[i], n).run();
      const std::vector<TokenId> drafted = rounds.drafted(i);
      for (size_t k = 0; k < expected.drafted.size(); ++k) EXPECT_EQ(drafted[k], expected.drafted[k]) << i << ", " << k;
      ASSERT_EQ(results[i].n_accepted + 1, static_cast<int>(expected.emitted.size())) << i;
      bool failed = false;
      for (size_t k = 0; k < expected.emitted.size(); ++k) {
        EXPECT_EQ(results[i].tokens[k], expected.emitted[k].token) << i << ", " << k;
        EXPECT_TRUE(same_float(results[i].logprobs[k], expected.emitted[k].logprob)) << i << ", " << k;
        failed |= expected.emitted[k].is_degenerate;
      }
      EXPECT_EQ(results[i].failed != 0, failed) << i;
      EXPECT_LE(results[i].n_labels, static_cast<int>(expected.chances.size())) << i;
      for (int k = 0; k < results[i].n_labels; ++k) {
        EXPECT_TRUE(same_float(results[i].chances[k], expected.chances[static_cast<size_t>(k)])) << i << ", " << k;
      }
      *n_accepted += results[i].n_accepted;
    }
  }
}

TEST(GpuRounds, AreTheCpusForEveryProcessorAndRule) {
  std::mt19937 random(5);
  int n_accepted = 0;
  for (const int n : {40, 300, 5000}) {
    std::vector<Request> requests;
    for (int i = 0; i < (n > 1000 ? 12 : 40); ++i) requests.push_back(random_request(n, random));
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

TEST(GpuRounds, RowsAreScored) {
  constexpr int kTokens = 777;
  std::mt19937 random(8);
  std::vector<float> logits = random_logits(3 * kTokens, random);
  logits[2 * kTokens + 5] = NAN;
  for (const std::unique_ptr<Device>& device : all_devices()) {
    const DeviceArray<float> rows(device.get(), logits);
    const DeviceArray<float> scratch(device.get(), std::vector<float>(9 * kTokens));
    const DeviceArray<uint64_t> keys(device.get(), std::vector<uint64_t>(3 * kTokens));
    const DeviceArray<RowTask> tasks(
        device.get(), {{0, 0, RowKind::kTarget, 12}, {0, 0, RowKind::kTop, 0}, {0, 0, RowKind::kTarget, 3}});
    const DeviceArray<RowOutcome> outcomes(device.get(), std::vector<RowOutcome>(3));
    const VerifyRows kernel{{rows.data(), kTokens, 3, kTokens, scratch.data(), keys.data(), kTokens},
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
    const float* second = logits.data() + kTokens;
    const float log_sum_exp = cpu_kernels().row_stats(second, kTokens).log_sum_exp;
    std::vector<std::pair<float, int>> order;
    for (int i = 0; i < kTokens; ++i) order.emplace_back(-(second[i] - log_sum_exp), i);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(found[1].n_top, kTopTokens);
    for (size_t k = 0; k < kTopTokens; ++k) {
      EXPECT_EQ(found[1].top[k], order[k].second);
      EXPECT_TRUE(same_float(found[1].top_logprobs[k], -order[k].first));
    }
  }
}

TEST(RowMath, ExpIsTheLibrarysWithinTwoUlp) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform(-700, 700);
  for (int i = 0; i < 100000; ++i) {
    const double x = i % 2 == 0 ? uniform(random) : uniform(random) / 100;
    const double expected = std::exp(x);
    ASSERT_NEAR(exp_of(x) / expected, 1.0, 2 * 0x1p-52) << x;
  }
  EXPECT_EQ(exp_of(0), 1.0);
  EXPECT_EQ(exp_of(-INFINITY), 0.0);
}

}  // namespace
}  // namespace bass::cuda
