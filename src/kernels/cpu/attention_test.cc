// Attention: the bits of reference/ for every length, head shape and padding, and no look at what is not there.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels_testing.h"
#include "kernels/reference/reference.h"

namespace bass::cpu {
namespace {

using testing::random_floats;
using testing::same_bits;

struct Shape {
  int head_dim;
  int group_size;
  int number_bytes = 2;  // of the cache
};

/// Keys and values of one KV head in pages that hold NaN wherever nothing was written.
class KvPages {
 public:
  /// Channel 3 of the keys is multiplied by `outlier`.
  KvPages(const Kernels& kernels, int head_dim, int number_bytes, int n_positions, std::mt19937& rng,
          float outlier = 1.0f)
      : keys(random_floats(static_cast<size_t>(n_positions * head_dim), rng)),
        values(random_floats(static_cast<size_t>(n_positions * head_dim), rng)) {
    for (int t = 0; t < n_positions; ++t) keys[static_cast<size_t>(t * head_dim + 3)] *= outlier;
    shape.head_dim = head_dim;
    shape.n_kv_heads = 1;
    shape.number_bytes = number_bytes;
    const int n_pages = (n_positions + kKvPageLen - 1) / kKvPageLen + kPaddingPages;
    constexpr uint16_t kNan = 0xFFFF;  // two of them are a NaN scale
    for (int i = 0; i < n_pages; ++i) {
      storage_.emplace_back(kHeadOffset / 2 + shape.head_bytes() / 2, kNan);
      pages.push_back(reinterpret_cast<const std::byte*>(storage_.back().data()));
    }
    for (int t = 0; t < n_positions; ++t) {
      auto* head = reinterpret_cast<std::byte*>(storage_[static_cast<size_t>(t / kKvPageLen)].data()) + kHeadOffset;
      kernels.write_kv(shape, &keys[static_cast<size_t>(t * head_dim)], &values[static_cast<size_t>(t * head_dim)],
                       t % kKvPageLen, head);
    }
  }

  static constexpr int kPaddingPages = 2;
  static constexpr size_t kHeadOffset = 64;
  std::vector<float> keys;  // as they were written
  std::vector<float> values;
  KvShape shape;
  std::vector<const std::byte*> pages;

 private:
  std::vector<std::vector<uint16_t>> storage_;
};

struct Query {
  int start;
  int n_tokens;
  int n_padding_tokens;
  int n_padding_chunks;
  int window = 0;  // positions that a token sees, itself among them; 0: all
  float score_scale = 0;
  float score_cap = 0;

  [[nodiscard]] int first_seen(int position) const { return window == 0 ? 0 : std::max(0, position - window + 1); }
};

/// Where a query's chunks are cut: at `first_run` the softmax goes on from its state; from `chunks_apart` on every
/// chunk leaves a state of its own.
struct Cut {
  int first_run;
  int chunks_apart;
};

class AttentionTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels_ = *GetParam();
  std::mt19937 rng_{5};

  /// A query bound to its tokens. q: [n_tokens, group_size * head_dim + 3], out: [n_tokens, group_size * head_dim]
  struct BoundQuery {
    std::vector<AttentionToken> tokens;
    KvShape shape;
    AttentionUnit unit;

    BoundQuery(const KvPages& kv, int group_size, const Query& query, const float* q, float* out) : shape(kv.shape) {
      shape.n_heads = group_size;
      shape.score_scale = query.score_scale;
      shape.score_cap = query.score_cap;
      const int row_len = group_size * shape.head_dim;
      for (int t = 0; t < query.n_tokens; ++t) {
        const int position = query.start + t;
        tokens.push_back({q + t * (row_len + 3), out + t * row_len, position, query.first_seen(position)});
      }
      for (int t = 0; t < query.n_padding_tokens; ++t) {
        const int position = query.start + query.n_tokens - 1;
        tokens.push_back({q, nullptr, position, query.first_seen(position)});
      }
      unit.tokens = tokens.data();
      unit.n_tokens = static_cast<int>(tokens.size());
      unit.end_chunk = (query.start + query.n_tokens + kKvPageLen - 1) / kKvPageLen + query.n_padding_chunks;
      unit.pages = kv.pages.data();
      unit.head_offset = KvPages::kHeadOffset;
    }
  };

  // [n_tokens, group_size * head_dim]
  static std::vector<float> attend(const Kernels& kernels, const KvPages& kv, int group_size, const Query& query,
                                   const float* q) {
    const size_t n = static_cast<size_t>(query.n_tokens * group_size * kv.shape.head_dim);
    std::vector<float> out(n + 1, -1.0f);
    const BoundQuery bound(kv, group_size, query, q, out.data());
    kernels.attend(bound.shape, bound.unit);
    EXPECT_EQ(out.back(), -1.0f);  // padded rows are not written
    out.pop_back();
    return out;
  }

  // The same in runs of chunks.
  static std::vector<float> attend_in_runs(const Kernels& kernels, const KvPages& kv, int group_size,
                                           const Query& query, const Cut& cut, const float* q) {
    const int dim = kv.shape.head_dim;
    std::vector<float> out(static_cast<size_t>(query.n_tokens * group_size * dim));
    const BoundQuery bound(kv, group_size, query, q, out.data());
    const auto n_rows = static_cast<size_t>(bound.unit.n_tokens * group_size);
    const auto state_len = static_cast<size_t>(attention_state_len(dim));
    const int n_rest = bound.unit.end_chunk - cut.chunks_apart;
    const size_t stride = n_rows * state_len + 3;  // other rows' states may lie between
    std::vector<float> first(n_rows * state_len, NAN);
    std::vector<float> second(n_rows * state_len, NAN);
    std::vector<float> rest(stride * static_cast<size_t>(n_rest) + 1, NAN);
    AttentionUnit unit = bound.unit;
    unit.end_chunk = cut.first_run;
    unit.state = first.data();
    if (cut.first_run > 0) kernels.attend(bound.shape, unit);
    unit.before = cut.first_run > 0 ? first.data() : nullptr;
    unit.first_chunk = cut.first_run;
    unit.end_chunk = cut.chunks_apart;
    unit.state = n_rest > 0 ? second.data() : nullptr;
    kernels.attend(bound.shape, unit);
    if (n_rest == 0) return out;
    unit.before = nullptr;
    unit.state = nullptr;
    unit.chunk_stride = static_cast<ptrdiff_t>(stride);
    for (int c = cut.chunks_apart, n; c < bound.unit.end_chunk; c += n) {
      n = std::min(1 + c % 2, bound.unit.end_chunk - c);
      unit.first_chunk = c;
      unit.end_chunk = c + n;
      unit.chunk_states = rest.data() + static_cast<size_t>(c - cut.chunks_apart) * stride;
      kernels.attend(bound.shape, unit);
    }
    const int n_merged = n_rest / 2;  // the others are left to the finish
    for (size_t row = 0; row < static_cast<size_t>(query.n_tokens * group_size); ++row) {
      const float* states = &rest[row * state_len];
      kernels.merge_chunks(dim, &second[row * state_len], states, stride, n_merged);
      kernels.finish_attention(dim, &second[row * state_len], states + static_cast<size_t>(n_merged) * stride, stride,
                               n_rest - n_merged, &out[row * static_cast<size_t>(dim)]);
    }
    return out;
  }

  static std::vector<float> reference_attend(const KvPages& kv, int group_size, const Query& query, const float* q) {
    const int dim = kv.shape.head_dim;
    std::vector<float> out(static_cast<size_t>(query.n_tokens * group_size * dim));
    for (int t = 0; t < query.n_tokens; ++t) {
      for (int h = 0; h < group_size; ++h) {
        const float* row = q + t * (group_size * dim + 3) + h * dim;
        const int position = query.start + t;
        reference::AttentionHead head{dim, row, kv.keys.data(), kv.values.data(), position + 1};
        head.first_seen = query.first_seen(position);
        head.score_scale = query.score_scale;
        head.score_cap = query.score_cap;
        head.is_int8 = kv.shape.number_bytes == 1;
        reference::attend(head, &out[static_cast<size_t>((t * group_size + h) * dim)]);
      }
    }
    return out;
  }

  std::vector<float> random_q(const Shape& shape, int n_tokens) {
    return random_floats(static_cast<size_t>(n_tokens * (shape.group_size * shape.head_dim + 3)), rng_, 2.0f);
  }

  void expect_reference_bits(const Shape& shape, const Query& query) {
    const KvPages kv(kernels_, shape.head_dim, shape.number_bytes, query.start + query.n_tokens, rng_);
    const std::vector<float> q = random_q(shape, query.n_tokens);
    EXPECT_TRUE(same_bits(attend(kernels_, kv, shape.group_size, query, q.data()),
                          reference_attend(kv, shape.group_size, query, q.data())))
        << "bytes " << shape.number_bytes << ", head_dim " << shape.head_dim << ", group " << shape.group_size
        << ", start " << query.start << ", " << query.n_tokens << " tokens, padding: " << query.n_padding_tokens
        << " tokens, " << query.n_padding_chunks << " chunks, window " << query.window;
  }
};

TEST_P(AttentionTest, HasTheBitsOfTheReferenceForEveryHeadShape) {
  for (const int head_dim : {16, 32, 64, 80, 96, 128, 256, 512}) {
    for (const int group_size : {1, 2, 3, 4, 7, 8, 21}) {
      expect_reference_bits({head_dim, group_size}, {40, 1, 0, 0});
      expect_reference_bits({head_dim, group_size}, {30, 5, 0, 0});
      expect_reference_bits({head_dim, group_size, 1}, {36, 5, 0, 0});
    }
  }
}

TEST_P(AttentionTest, HasTheBitsOfTheReferenceForEveryLength) {
  for (const int length : {1, 31, 32, 33, 64, 65, 100}) {
    for (int n_tokens = 1; n_tokens <= std::min(9, length); ++n_tokens) {
      expect_reference_bits({64, 3}, {length - n_tokens, n_tokens, 0, 0});
      expect_reference_bits({64, 3, 1}, {length - n_tokens, n_tokens, 0, 0});
    }
  }
  expect_reference_bits({32, 2}, {0, 70, 0, 0});    // a prompt
  expect_reference_bits({16, 120}, {33, 1, 0, 0});  // more rows than are computed together
}

// However they are divided into blocks.
TEST_P(AttentionTest, HasTheBitsOfTheReferenceForEveryNumberOfRows) {
  for (int n_rows = 1; n_rows <= kMaxAttentionRows + 1; ++n_rows) {
    expect_reference_bits({16, 1, 1 + n_rows % 2}, {40, n_rows, 0, 0});
  }
  // The most blocks there can be, of the longest heads.
  for (int n_rows = kMaxAttentionRows - 15; n_rows <= kMaxAttentionRows; ++n_rows) {
    expect_reference_bits({kMaxHeadDim, 1, 2}, {40, n_rows, 0, 0});
  }
}

TEST_P(AttentionTest, HasTheBitsOfTheReferenceForEveryWindow) {
  for (const int window : {1, 5, 31, 32, 33, 64, 100}) {
    for (const int group_size : {1, 3, 8}) {
      expect_reference_bits({32, group_size}, {60, 1, 0, 0, window});
      expect_reference_bits({32, group_size, 1}, {0, 70, 0, 0, window});
      expect_reference_bits({32, group_size}, {126, 6, 2, 1, window});
    }
  }
}

TEST_P(AttentionTest, HasTheBitsOfTheReferenceForScaledAndCappedScores) {
  for (const int group_size : {1, 3, 8}) {
    expect_reference_bits({32, group_size}, {60, 9, 0, 0, 0, 0.3f, 5.0f});
    expect_reference_bits({32, group_size}, {60, 9, 2, 1, 20, 0.0f, 5.0f});
    expect_reference_bits({32, group_size}, {60, 9, 0, 0, 0, 0.01f, 0.0f});
  }
}

TEST_P(AttentionTest, PaddingChangesNoBit) {
  for (const int n_padding_tokens : {0, 1, 6}) {
    for (const int n_padding_chunks : {0, 1, 2}) {
      expect_reference_bits({64, 3}, {29, 3, n_padding_tokens, n_padding_chunks});
      expect_reference_bits({64, 3, 1}, {29, 3, n_padding_tokens, n_padding_chunks});
      expect_reference_bits({32, 1}, {61, 3, n_padding_tokens, n_padding_chunks});
    }
  }
}

TEST_P(AttentionTest, GivesATokenTheSameBitsInEveryBatch) {
  constexpr Shape kShape{64, 3};
  constexpr int kTokens = 40;
  const KvPages kv(kernels_, kShape.head_dim, kShape.number_bytes, kTokens, rng_);
  const std::vector<float> q = random_q(kShape, kTokens);
  const std::vector<float> all = attend(kernels_, kv, kShape.group_size, {0, kTokens, 0, 0}, q.data());
  const int row_len = kShape.head_dim * kShape.group_size;
  for (int first = 0; first < kTokens; ++first) {
    const int n_tokens = std::min(1 + first % 4, kTokens - first);
    const std::vector<float> part =
        attend(kernels_, kv, kShape.group_size, {first, n_tokens, 0, 0}, q.data() + first * (row_len + 3));
    EXPECT_TRUE(same_bits(part.data(), all.data() + first * row_len, part.size())) << first;
  }
}

TEST_P(AttentionTest, RunsOfChunksGiveTheBitsOfOneRun) {
  constexpr Shape kShape{32, 3};
  for (const Query& query : {Query{150, 1, 0, 0}, Query{126, 6, 0, 0}, Query{120, 40, 0, 0}, Query{127, 3, 2, 1},
                             Query{130, 3, 0, 0}, Query{130, 4, 0, 0}, Query{130, 10, 0, 0}, Query{130, 13, 0, 0},
                             Query{150, 1, 0, 0, 40}, Query{126, 6, 0, 0, 33, 0.1f, 4.0f}}) {
    const KvPages kv(kernels_, kShape.head_dim, kShape.number_bytes, query.start + query.n_tokens, rng_);
    const std::vector<float> q = random_q(kShape, query.n_tokens);
    const std::vector<float> whole = attend(kernels_, kv, kShape.group_size, query, q.data());
    const int n_chunks = (query.start + query.n_tokens + kKvPageLen - 1) / kKvPageLen + query.n_padding_chunks;
    for (int first_run = 0; first_run < n_chunks; ++first_run) {
      for (int apart = first_run + 1; apart <= n_chunks; ++apart) {
        const auto runs = attend_in_runs(kernels_, kv, kShape.group_size, query, {first_run, apart}, q.data());
        EXPECT_TRUE(same_bits(whole, runs)) << "start " << query.start << ", cuts " << first_run << ", " << apart;
      }
    }
  }
}

TEST_P(AttentionTest, WeighsByTheScores) {  // one key stands out by so much that its value is the answer
  constexpr int kDim = 16;
  KvPages kv(kernels_, kDim, 2, 50, rng_);
  std::vector<float> q(kDim);
  for (int d = 0; d < kDim; ++d) q[static_cast<size_t>(d)] = 1000.0f * kv.keys[static_cast<size_t>(20 * kDim + d)];
  const std::vector<float> out = attend(kernels_, kv, 1, {49, 1, 0, 0}, q.data());
  for (size_t d = 0; d < kDim; ++d) EXPECT_NEAR(out[d], kv.values[20 * kDim + d], 2e-4);
}

// What rounding costs: against attention in double precision, with outliers in the keys as models have them.
TEST_P(AttentionTest, StaysNearExactAttention) {
  for (const int number_bytes : {2, 1}) {
    constexpr Shape kShape{64, 2};
    constexpr Query kQuery{299, 1, 0, 0};
    constexpr int kPositions = 300;
    KvPages kv(kernels_, kShape.head_dim, number_bytes, kPositions, rng_, /*outlier=*/8.0f);
    const std::vector<float> q = random_q(kShape, 1);
    const std::vector<float> out = attend(kernels_, kv, kShape.group_size, kQuery, q.data());
    for (int h = 0; h < kShape.group_size; ++h) {
      std::vector<double> exact(static_cast<size_t>(kShape.head_dim), 0.0);
      double sum = 0;
      for (size_t j = 0; j < kPositions; ++j) {
        double score = 0;
        for (size_t d = 0; d < 64; ++d) score += double{q[static_cast<size_t>(h) * 64 + d]} * kv.keys[j * 64 + d];
        const double p = std::exp(score / 8);
        sum += p;
        for (size_t d = 0; d < 64; ++d) exact[d] += p * kv.values[j * 64 + d];
      }
      const double tolerance = number_bytes == 2 ? 2e-3 : 0.2;
      for (size_t d = 0; d < 64; ++d) EXPECT_NEAR(out[static_cast<size_t>(h) * 64 + d], exact[d] / sum, tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, ::testing::ValuesIn(testing::all_kernels()), testing::isa_name);

}  // namespace
}  // namespace bass::cpu
