// Threads that take rows of their own through all layers give the bits of one thread, whatever they share: prompts'
// pages, a draft that is cut between them, a draft's taps. One pass of the default model over made-up caches.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "executor/cpu/forward.h"
#include "model/model_file.h"
#include "support/engine_run.h"

namespace bass::cpu {
namespace {

constexpr int kPages = 160;
constexpr int kTap = 14;  // a layer

struct Sequence {
  int start;
  int n_tokens;
  std::vector<PageId> pages;
};

/// 15 sequences of 5 tokens, 5 of one and one of 4: 84 rows. Some are samples of one prompt of two whole pages.
std::vector<Sequence> batch() {
  std::vector<Sequence> sequences;
  PageId next = 2;
  for (int i = 0; i < 21; ++i) {
    Sequence sequence{70 + 7 * (i % 5), i == 20 ? 4 : i % 4 == 3 ? 1 : 5, {}};
    if (i % 3 != 2) sequence.pages = {0, 1};
    while (static_cast<int>(sequence.pages.size()) * kKvPageLen < sequence.start + sequence.n_tokens) {
      sequence.pages.push_back(next++);
    }
    sequences.push_back(sequence);
  }
  return sequences;
}

struct Outcome {
  bool has_own_rows = false;
  std::vector<float> logits;
  std::vector<std::byte> pages;  // keys and values, and what a draft reads
};

struct Setting {
  AttentionKind attention = AttentionKind::kFused;
  KvKind kv = KvKind::kInt16;
  int n_planes = 1;
};

Outcome run(const ModelFile& file, const Kernels* kernels, int n_threads, const Setting& setting) {
  ThreadTeam team(n_threads);
  const std::vector<Sequence> sequences = batch();
  Result<std::unique_ptr<CpuModel>> model = CpuModel::load(file, {setting.kv, kPages, 256, 1}, &team);
  if (!model.ok()) {
    ADD_FAILURE() << model.status().message();
    return {};
  }
  CpuModel& loaded = *model.value();
  const size_t n_bytes = kPages * loaded.page_bytes();
  std::memset(loaded.page(0), 0x3C, n_bytes);  // a normal number in every type that the cache may have
  loaded.prepare_positions(256);
  ForwardOptions options;
  options.max_rows = 128;
  options.n_planes = setting.n_planes;
  options.n_threads = n_threads;
  options.attention = setting.attention;
  options.tap_layers = {kTap};
  CpuForward forward(&loaded, kernels, options);
  EXPECT_TRUE(forward.ok());
  forward.reserve(sequences.size(), 8);
  forward.begin_batch();
  for (const Sequence& sequence : sequences) {
    forward.add_segment(sequence.start, /*is_decode=*/true, sequence.pages, 256);
    for (int t = 0; t < sequence.n_tokens; ++t) forward.add_token(100 + 31 * forward.n_rows());
  }
  forward.end_batch();
  Outcome outcome;
  outcome.has_own_rows = forward.has_own_rows();
  std::vector<int> rows(64);  // of more than there are at once: the last ones, which every thread has some of
  std::iota(rows.begin(), rows.end(), forward.n_rows() - 64);
  outcome.logits.resize(rows.size() * static_cast<size_t>(file.config.vocab_size));
  team.run([&](const TeamContext& context) {
    forward.run(context);
    forward.logits(context, rows, outcome.logits.data());
  });
  outcome.pages.assign(loaded.page(0), loaded.page(0) + n_bytes);
  return outcome;
}

class OwnRows : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<ModelFile> file = load_model_file(bass::testing::default_model());
    ASSERT_TRUE(file.ok()) << file.status().message();
    file_ = std::make_unique<ModelFile>(std::move(file).value());
    kernels_ = find_kernels(Isa::kAvx512Vnni);
    if (kernels_ == nullptr) kernels_ = find_kernels(Isa::kAvxVnni);
    if (kernels_ == nullptr) kernels_ = find_kernels(Isa::kAvx2);
    if (kernels_ == nullptr) kernels_ = find_kernels(Isa::kScalar);
  }

  void expect_bits_of_one_thread(const Setting& setting) {
    const Outcome one = run(*file_, kernels_, 1, setting);
    EXPECT_FALSE(one.has_own_rows);
    for (const int n_threads : {2, 3}) {
      const Outcome several = run(*file_, kernels_, n_threads, setting);
      EXPECT_TRUE(several.has_own_rows) << n_threads;
      EXPECT_EQ(std::memcmp(several.logits.data(), one.logits.data(), one.logits.size() * sizeof(float)), 0);
      EXPECT_TRUE(several.pages == one.pages) << "keys, values or taps differ";
    }
  }

  std::unique_ptr<ModelFile> file_;
  const Kernels* kernels_ = nullptr;
};

TEST_F(OwnRows, GiveTheBitsOfOneThread) { expect_bits_of_one_thread({}); }
TEST_F(OwnRows, GiveThemSequenceBySequence) { expect_bits_of_one_thread({AttentionKind::kSplit}); }
TEST_F(OwnRows, GiveThemFromAnInt8Cache) { expect_bits_of_one_thread({AttentionKind::kFused, KvKind::kInt8}); }
TEST_F(OwnRows, GiveThemWithInt16Activations) {
  expect_bits_of_one_thread({AttentionKind::kFused, KvKind::kInt16, /*n_planes=*/2});
}

// PAD stays one rectangle, and AMX shares its products out, with the bits of vectors.
TEST_F(OwnRows, AreNotForEveryone) {
  EXPECT_FALSE(run(*file_, kernels_, 2, {AttentionKind::kPad}).has_own_rows);
  if (const Kernels* amx = emulated_amx(); amx != nullptr) {
    const Outcome of_tiles = run(*file_, amx, 2, {});
    const Outcome of_vectors = run(*file_, find_kernels(Isa::kAvx512Vnni), 2, {});
    EXPECT_FALSE(of_tiles.has_own_rows);
    EXPECT_TRUE(of_tiles.logits == of_vectors.logits);
    EXPECT_TRUE(of_tiles.pages == of_vectors.pages);
  }
}

// Negative control: another cache shows in what is compared.
TEST_F(OwnRows, OtherArithmeticGivesOtherBits) {
  EXPECT_NE(run(*file_, kernels_, 2, {}).logits,
            run(*file_, kernels_, 2, {AttentionKind::kFused, KvKind::kInt8}).logits);
}

}  // namespace
}  // namespace bass::cpu
