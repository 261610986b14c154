// The arithmetic of the CPU backend, one table of functions per instruction set.
//
// Every table gives the same bits: the arithmetic is stated per weight format (matmul below), in integers where it is
// exact and in one fixed order of fp32 operations elsewhere. So a row's result depends on nothing but the row
// (docs/architecture.md, "Row invariance"). reference/ states the same arithmetic in obvious scalar loops.
//
// All functions are pure functions over memory that the caller owns; they allocate nothing and are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/philox.h"
#include "base/thread_team.h"
#include "bass/status.h"
#include "bass/types.h"
#include "kernels/cpu/activations.h"
#include "tensor/dtype.h"

namespace bass::cpu {

enum class Isa { kScalar, kAvx2, kAvxVnni, kAvx512Vnni };

/// Output channels that a packed weight tile interleaves: one 512-bit vector of fp32.
inline constexpr int kTileLen = 16;
/// Tokens of a KV page and of an attention chunk. Chunks give independent (m, l, O) at absolute positions.
inline constexpr int kKvPageLen = 32;
/// The longest attention head.
inline constexpr int kMaxHeadDim = 512;

// ---------------------------------------------------------------------------------------------------------------------
// Weights

/// A weight matrix W [n_out, n_in] repacked into tiles of kTileLen output channels (pack.h documents the layouts).
/// n_out is padded with zero channels to whole tiles. Does not own its data.
struct PackedMatrix {
  DType type = DType::kF32;  // of the packed data (pack.h: packed_type)
  int n_out = 0;
  int n_in = 0;
  const std::byte* data = nullptr;  // 64-byte aligned

  [[nodiscard]] int n_tiles() const { return (n_out + kTileLen - 1) / kTileLen; }
  [[nodiscard]] bool is_quantised() const { return type != DType::kF32 && type != DType::kF16 && type != DType::kBF16; }
};

// ---------------------------------------------------------------------------------------------------------------------
// Attention

/// Where one KV head of one layer lies inside a page, and the shape of the heads.
/// K lies transposed [head_dim, kKvPageLen], V lies [kKvPageLen, head_dim]; both IEEE f16.
struct KvShape {
  int n_heads = 0;  // query heads
  int n_kv_heads = 0;
  int head_dim = 0;        // a multiple of 16, at most kMaxHeadDim
  size_t layer_bytes = 0;  // bytes of one layer inside a page: n_kv_heads * head_bytes()

  [[nodiscard]] int group_size() const { return n_heads / n_kv_heads; }
  [[nodiscard]] size_t half_bytes() const { return size_t{2} * static_cast<size_t>(head_dim) * kKvPageLen; }  // K or V
  [[nodiscard]] size_t head_bytes() const { return 2 * half_bytes(); }
};

/// All query rows of one sequence for one KV head (n_tokens x group_size rows): the unit of attention work.
/// Row t attends to the positions 0 .. start + t. Chunks past a row's own position change nothing in its result, so
/// n_tokens and n_chunks may be padded upward (BASS-PAD): rows >= n_tokens are computed from zeros and thrown away,
/// page pointers of padding chunks point to any readable page. Positions past the last row's own are never used,
/// whatever they hold. The values of positions that a row does not see must be finite (write_kv takes care of it).
struct AttentionUnit {
  const float* q = nullptr;  // this KV head's first query head of row 0; row t at q + t * q_stride
  int q_stride = 0;          // floats between rows (n_heads * head_dim or more)
  float* out = nullptr;      // as q; [n_tokens, group_size * head_dim] written at out + t * out_stride
  int out_stride = 0;
  int start = 0;  // position of row 0
  int n_tokens = 0;
  int n_padded_tokens = 0;                  // >= n_tokens
  int n_chunks = 0;                         // chunks to walk, >= ceil((start + n_tokens) / kKvPageLen)
  const std::byte* const* pages = nullptr;  // [n_chunks] base of each page
  size_t head_offset = 0;                   // bytes from a page's base to this layer's and KV head's K
};

// ---------------------------------------------------------------------------------------------------------------------
// Vocabulary rows

/// Of one row of logits: the maximum, the lowest id that has it, and log(sum(exp(x))).
struct RowStats {
  float max = 0;
  TokenId argmax = 0;
  float log_sum_exp = 0;
};

/// Which tokens of a row are kept after truncation: z > cut_value, or z == cut_value and id <= cut_id.
struct KeptSet {
  float cut_value = -__builtin_inff();
  TokenId cut_id = INT32_MAX;

  [[nodiscard]] bool contains(float z, TokenId id) const { return z > cut_value || (z == cut_value && id <= cut_id); }
};

/// A normalised distribution: p_i = exp(z[i] - log_norm) for kept i below n, 0 for others.
struct ProbabilityRow {
  const float* z = nullptr;  // [n]
  int n = 0;
  KeptSet kept;
  float log_norm = 0;
};

// ---------------------------------------------------------------------------------------------------------------------

struct Kernels {
  Isa isa;
  const char* name;  // as BASS_FORCE_ISA spells it: scalar, avx2, avxvnni, avx512vnni

  /// out[i] = (x[i] * (1 / sqrt(mean(x^2) + eps))) * weight[i]. Sum of squares in 16 lanes (element i in lane i % 16,
  /// one FMA each, ascending), lanes added by the fixed tree (i with i + 8, then + 4, + 2, + 1). Any n. out may be x.
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);

  /// Quantises columns [begin, end) of row `row_idx` of `rows` from x [end - begin]; begin and end are multiples of
  /// kGroupLen (or, with n_planes 0, anything). Also copies to rows.f32 where that is set.
  void (*quantise)(const float* x, int row_idx, int begin, int end, const ActivationRows& rows);

  /// out[r][c] (+)= sum_k W[c][k] x[r][k] for rows [0, n_rows) and the output channels of `tiles`.
  /// out: row r at out + r * out_stride, indexed from `first_channel`: channel c at out[c - first_channel]. Channels at
  /// or past n_out are not written. Stated order, for every channel and row, groups g (or elements k) ascending from
  /// acc = 0:
  ///   quantised: acc = fma(d_w, fl(d_x float(idot)), acc)      idot exact in int32, of the weights q - offset
  ///              then, in formats with minima, acc = fma(m_w, fl(d_x float(sum)), acc)
  ///   F32, F16, BF16: acc = fma(float(w), x, acc)
  /// and at the end out = acc, or with `accumulate` out = out + acc. d_w and m_w are the scale and the minimum of the
  /// format's own group (tensor/quant_format.h): f16 numbers; in the K formats d_w = fl(d s), m_w = -fl(m t) with the
  /// whole numbers s and t. Q2_K, Q3_K and Q6_K have groups of 16 elements: half a group of the activations, whose d_x
  /// they share; sum is then over the same half.
  void (*matmul)(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, float* out,
                 int out_stride, int first_channel, bool accumulate);

  /// out[i] = fl(up[i] * gate[i]) / (1 + exp(-gate[i])). out may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, int n, float* out);

  /// Rotates neighbouring pairs (2i, 2i + 1) of the first rope_dim elements of a head in place (GGUF's "norm" rope).
  /// cos_pairs: [rope_dim] c0 c0 c1 c1 ...; sin_pairs: [rope_dim] -s0 s0 -s1 s1 ...
  /// y = fma(swapped(x), sin_pairs, fl(x * cos_pairs)). rope_dim is even.
  void (*rope)(float* head, int rope_dim, const float* cos_pairs, const float* sin_pairs);

  /// Writes one token's K and V head into slot `token_in_page` of a page, rounded to f16; numbers beyond its range
  /// become
  /// +-65504, so that what is cached is finite. k, v: [head_dim]
  void (*write_kv)(const float* k, const float* v, int head_dim, int token_in_page, std::byte* page_head);

  /// Scaled dot-product attention of one unit: scores fl(q.k * (1 / sqrt(head_dim))) with q.k one FMA chain over
  /// ascending d; per chunk m = max, p = exp(s - m), l = sum of p (16 lanes: two vectors added, then a fixed tree),
  /// O = FMA chain over ascending positions; chunks merged in ascending order with
  /// m' = max(m, m_c), a = exp(m - m'), b = exp(m_c - m'), l = fma(l_c, b, fl(l a)), O = fma(O_c, b, fl(O a));
  /// out = O / l + 0 (no negative zeros). The first chunk starts (m, l, O). out may be q with the same stride.
  void (*attend)(const KvShape& shape, const AttentionUnit& unit);

  // out[i] = e^x[i], log(x[i]): the functions that all others use (math_impl.h has their ranges), n numbers.

  void (*exp)(const float* x, int n, float* out);
  void (*log)(const float* x, int n, float* out);

  // Vocabulary rows, n = vocabulary size, any n.

  /// log_sum_exp is NaN where the row holds NaN or +inf, or nothing finite.
  RowStats (*row_stats)(const float* logits, int n);
  /// out[i] = x[i] * factor
  void (*scale)(const float* x, float factor, int n, float* out);
  /// sum over kept i of exp(z[i] - max), in 16 lanes and a fixed tree (masked-out lanes add 0).
  float (*kept_mass)(const float* z, int n, float max, KeptSet kept);
  /// argmax over kept i of z[i] + Gumbel(stream, i); ties to the lowest id; -1 if none is kept. NaN and -inf never win.
  TokenId (*gumbel_argmax)(const float* z, int n, KeptSet kept, const RandomStream& stream);
  /// argmax over i of log(max(factor p_i - q_i, 0)) + Gumbel(stream, i); -1 if nothing is positive. q.n <= p.n. Each
  /// difference is one FMA. Computed as the argmax of (factor p_i - q_i) / E_i with the exponential noise E behind the
  /// Gumbel noise: the same order without logarithms.
  TokenId (*residual_argmax)(const ProbabilityRow& p, float factor, const ProbabilityRow& q,
                             const RandomStream& stream);
  /// sum over i of max(factor p_i - q_i, 0), of the same differences: 0 exactly where residual_argmax gives -1. In 16
  /// lanes and a fixed tree.
  float (*residual_mass)(const ProbabilityRow& p, float factor, const ProbabilityRow& q);

  // Measuring the machine (machine_impl.h).

  int64_t (*dot_peak)(int64_t n_iterations);
  double dot_peak_operations;  // int8 multiplications and additions of one iteration
  int64_t (*read_bytes)(const std::byte* data, size_t n_bytes);
};

/// The tables that this processor can run, best last. Scalar always.
int available_kernels(const Kernels** tables, int max_tables);

/// The best table, or the one that BASS_FORCE_ISA names. Error (kInvalidArgument) when that is unknown or this
/// processor lacks it.
Result<const Kernels*> select_kernels();

const Kernels* find_kernels(Isa isa);  // nullptr when this processor lacks it

}  // namespace bass::cpu
