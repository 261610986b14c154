// Attention: the bits of reference/ for every length, head shape and padding, and no look at what is not there.
#include <algorithm>

#include "kernels/cpu/kernels_testing.h"
#include "kernels/reference/reference.h"

namespace bass::cpu {
namespace {

using testing::random_floats;
using testing::same_bits;

struct Shape {
  int head_dim;
  int group_size;
};

/// Keys and values of one KV head in pages that hold NaN wherever nothing was written.
class KvPages {
 public:
  KvPages(const Kernels& kernels, int head_dim, int n_positions, std::mt19937& rng)
      : keys(random_floats(static_cast<size_t>(n_positions * head_dim), rng)),
        values(random_floats(static_cast<size_t>(n_positions * head_dim), rng)) {
    shape.head_dim = head_dim;
    shape.n_kv_heads = 1;
    const int n_pages = (n_positions + kKvPageLen - 1) / kKvPageLen + kPaddingPages;
    constexpr uint16_t kNan = 0x7E00;
    for (int i = 0; i < n_pages; ++i) {
      storage_.emplace_back(kHeadOffset / 2 + shape.head_bytes() / 2, kNan);
      pages.push_back(reinterpret_cast<const std::byte*>(storage_.back().data()));
    }
    for (int t = 0; t < n_positions; ++t) {
      auto* head = reinterpret_cast<std::byte*>(storage_[static_cast<size_t>(t / kKvPageLen)].data()) + kHeadOffset;
      kernels.write_kv(&keys[static_cast<size_t>(t * head_dim)], &values[static_cast<size_t>(t * head_dim)], head_dim,
                       t % kKvPageLen, head);
    }
    for (float& x : keys) x = f16_to_f32(f32_to_f16(x));
    for (float& x : values) x = f16_to_f32(f32_to_f16(x));
  }

  static constexpr int kPaddingPages = 2;
  static constexpr size_t kHeadOffset = 64;
  std::vector<float> keys;  // as f16 holds them
  std::vector<float> values;
  KvShape shape;
  std::vector<const std::byte*> pages;

 private:
  std::vector<std::vector<uint16_t>> storage_;
};

struct Query {
  int start;
  int n_tokens;
  int n_padded_tokens;
  int n_padding_chunks;
};

class AttentionTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels_ = *GetParam();
  std::mt19937 rng_{5};

  // [n_tokens, group_size * head_dim]
  static std::vector<float> attend(const Kernels& kernels, const KvPages& kv, int group_size, const Query& query,
                                   const float* q) {
    KvShape shape = kv.shape;
    shape.n_heads = group_size;
    const int row_len = group_size * shape.head_dim;
    std::vector<float> out(static_cast<size_t>(query.n_tokens * row_len) + 1, -1.0f);
    AttentionUnit unit;
    unit.q = q;
    unit.q_stride = row_len + 3;
    unit.out = out.data();
    unit.out_stride = row_len;
    unit.start = query.start;
    unit.n_tokens = query.n_tokens;
    unit.n_padded_tokens = query.n_padded_tokens;
    unit.n_chunks = (query.start + query.n_tokens + kKvPageLen - 1) / kKvPageLen + query.n_padding_chunks;
    unit.pages = kv.pages.data();
    unit.head_offset = KvPages::kHeadOffset;
    kernels.attend(shape, unit);
    EXPECT_EQ(out.back(), -1.0f);  // padded rows are not written
    out.pop_back();
    return out;
  }

  static std::vector<float> reference_attend(const KvPages& kv, int group_size, const Query& query, const float* q) {
    const int dim = kv.shape.head_dim;
    std::vector<float> out(static_cast<size_t>(query.n_tokens * group_size * dim));
    for (int t = 0; t < query.n_tokens; ++t) {
      for (int h = 0; h < group_size; ++h) {
        const float* row = q + t * (group_size * dim + 3) + h * dim;
        const reference::AttentionHead head{dim, row, kv.keys.data(), kv.values.data(), query.start + t + 1};
        reference::attend(head, &out[static_cast<size_t>((t * group_size + h) * dim)]);
      }
    }
    return out;
  }

  std::vector<float> random_q(const Shape& shape, int n_tokens) {
    return random_floats(static_cast<size_t>(n_tokens * (shape.group_size * shape.head_dim + 3)), rng_, 2.0f);
  }

  void expect_reference_bits(const Shape& shape, const Query& query) {
    const KvPages kv(kernels_, shape.head_dim, query.start + query.n_tokens, rng_);
    const std::vector<float> q = random_q(shape, query.n_tokens);
    EXPECT_TRUE(same_bits(attend(kernels_, kv, shape.group_size, query, q.data()),
                          reference_attend(kv, shape.group_size, query, q.data())))
        << "head_dim " << shape.head_dim << ", group " << shape.group_size << ", start " << query.start << ", "
        << query.n_tokens << " tokens of " << query.n_padded_tokens << ", " << query.n_padding_chunks
        << " padding chunks";
  }
};

TEST_P(AttentionTest, HasTheBitsOfTheReferenceForEveryHeadShape) {
  for (const int head_dim : {16, 32, 64, 80, 96, 128}) {
    for (const int group_size : {1, 2, 3, 4, 8}) {
      expect_reference_bits({head_dim, group_size}, {40, 1, 1, 0});
      expect_reference_bits({head_dim, group_size}, {30, 5, 5, 0});
    }
  }
}

TEST_P(AttentionTest, HasTheBitsOfTheReferenceForEveryLength) {
  for (const int length : {1, 31, 32, 33, 64, 65, 100}) {
    for (int n_tokens = 1; n_tokens <= std::min(9, length); ++n_tokens) {
      expect_reference_bits({64, 3}, {length - n_tokens, n_tokens, n_tokens, 0});
    }
  }
  expect_reference_bits({32, 2}, {0, 70, 70, 0});  // a prompt
}

TEST_P(AttentionTest, PaddingChangesNoBit) {
  for (const int n_padded_tokens : {3, 4, 9}) {
    for (const int n_padding_chunks : {0, 1, 2}) {
      expect_reference_bits({64, 3}, {29, 3, n_padded_tokens, n_padding_chunks});
      expect_reference_bits({32, 1}, {61, 3, n_padded_tokens, n_padding_chunks});
    }
  }
}

TEST_P(AttentionTest, GivesATokenTheSameBitsInEveryBatch) {
  constexpr Shape kShape{64, 3};
  constexpr int kTokens = 40;
  const KvPages kv(kernels_, kShape.head_dim, kTokens, rng_);
  const std::vector<float> q = random_q(kShape, kTokens);
  const std::vector<float> all = attend(kernels_, kv, kShape.group_size, {0, kTokens, kTokens, 0}, q.data());
  const int row_len = kShape.head_dim * kShape.group_size;
  for (int first = 0; first < kTokens; ++first) {
    const int n_tokens = std::min(1 + first % 4, kTokens - first);
    const std::vector<float> part =
        attend(kernels_, kv, kShape.group_size, {first, n_tokens, n_tokens, 0}, q.data() + first * (row_len + 3));
    EXPECT_TRUE(same_bits(part.data(), all.data() + first * row_len, part.size())) << first;
  }
}

TEST_P(AttentionTest, WeighsByTheScores) {  // one key stands out by so much that its value is the answer
  constexpr int kDim = 16;
  KvPages kv(kernels_, kDim, 50, rng_);
  std::vector<float> q(kDim);
  for (int d = 0; d < kDim; ++d) q[static_cast<size_t>(d)] = 1000.0f * kv.keys[static_cast<size_t>(20 * kDim + d)];
  const std::vector<float> out = attend(kernels_, kv, 1, {49, 1, 1, 0}, q.data());
  for (size_t d = 0; d < kDim; ++d) EXPECT_FLOAT_EQ(out[d], kv.values[20 * kDim + d]);
}

INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, ::testing::ValuesIn(testing::all_kernels()), testing::isa_name);

}  // namespace
}  // namespace bass::cpu
