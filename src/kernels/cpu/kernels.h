// The arithmetic of the CPU backend, one table of functions per instruction set.
//
// Every table gives the same bits: the arithmetic is stated per weight format (matmul below), in integers where it is
// exact and in one fixed order of fp32 operations elsewhere. So a row's result depends on nothing but the row
// (docs/architecture.md, "Row invariance"); where a row holds what is no number, on the table too. reference/ states
// the same arithmetic in obvious scalar loops.
//
// All functions are pure functions over memory that the caller owns; they allocate nothing and are thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/philox.h"
#include "base/thread_team.h"
#include "bass/status.h"
#include "bass/types.h"
#include "bass/work.h"
#include "kernels/cpu/activations.h"
#include "tensor/dtype.h"

namespace bass::cpu {

enum class Isa { kScalar, kAvx2, kAvxVnni, kAvx512Vnni, kAvx512Amx };

/// Output channels that a packed weight tile interleaves: one 512-bit vector of fp32.
inline constexpr int kTileLen = 16;
/// Tokens of a KV page and of an attention chunk. Chunks give independent (m, l, O) at absolute positions.
inline constexpr int kKvPageLen = 32;
/// The longest attention head.
inline constexpr int kMaxHeadDim = 512;
/// Rows (query heads of tokens) that units of attention should not exceed, so that their sums stay in the caches.
inline constexpr int kMaxAttentionRows = 96;

// ---------------------------------------------------------------------------------------------------------------------
// Weights

/// A weight matrix W [n_out, n_in] repacked into tiles of kTileLen output channels (pack.h documents the layouts).
/// n_out is padded with zero channels to whole tiles. Does not own its data.
struct PackedMatrix {
  DType type = DType::kF32;  // of the packed data (pack.h: packed_type)
  int n_out = 0;
  int n_in = 0;
  const std::byte* data = nullptr;  // 64-byte aligned
  const float* bias = nullptr;      // [n_out], or null

  [[nodiscard]] int n_tiles() const { return (n_out + kTileLen - 1) / kTileLen; }
  [[nodiscard]] bool is_quantised() const { return type != DType::kF32 && type != DType::kF16 && type != DType::kBF16; }
};

/// What a thread is going to read behind its products, for them to ask for beside their own work: with many rows they
/// leave the memory idle. A queue of blocks of equal size, and how much of it has been taken. Owns nothing.
struct FetchQueue {
  const std::byte* const* blocks = nullptr;  // [n_blocks]
  int n_blocks = 0;
  ptrdiff_t offset = 0;         // bytes from where a block's pointer points to what is wanted of it
  ptrdiff_t block_bytes = 0;    // wanted of each
  int n_taken = 0;              // blocks, whole
  ptrdiff_t n_taken_bytes = 0;  // of the block behind them

  /// The next n_bytes, or what is left of a block and bytes behind it. Null: nothing is left.
  const std::byte* take(ptrdiff_t n_bytes) {
    if (n_taken >= n_blocks) return nullptr;
    const std::byte* data = blocks[n_taken] + offset + n_taken_bytes;
    n_taken_bytes += n_bytes;
    if (n_taken_bytes >= block_bytes) {
      ++n_taken;
      n_taken_bytes = 0;
    }
    return data;
  }
  [[nodiscard]] ptrdiff_t n_bytes_left() const { return (n_blocks - n_taken) * block_bytes - n_taken_bytes; }
};

/// With so few rows the weights themselves keep the memory busy: their products take nothing.
inline constexpr int kMaxRowsWithoutFetch = 8;
/// What a product of quantised weights takes for each row, tile of channels and group: half of what memory gives
/// meanwhile (AMD Zen 5).
inline constexpr int kFetchBytes = 16;

/// What such a product with all channels takes, about.
inline int64_t matmul_fetch_bytes(const PackedMatrix& w, int n_rows) {
  if (n_rows <= kMaxRowsWithoutFetch || !w.is_quantised()) return 0;
  return int64_t{kFetchBytes} * n_rows * w.n_tiles() * (w.n_in / kGroupLen);
}

// ---------------------------------------------------------------------------------------------------------------------
// Attention

/// Where one KV head of one layer lies inside a page, and the shape of the heads.
/// In the page: K [head_dim / 2, kKvPageLen, 2], V [kKvPageLen / 2, head_dim, 2] (what a dot product of pairs reads
/// lies together), both int16 or both int8, then the scales of K and of V, fp32 [kKvPageLen] each. A head's numbers are
/// q * scale.
struct KvShape {
  int n_heads = 0;  // query heads
  int n_kv_heads = 0;
  int head_dim = 0;                    // a multiple of 16, at most kMaxHeadDim
  size_t layer_bytes = 0;              // bytes of one layer inside a page: n_kv_heads * head_bytes()
  int number_bytes = 2;                // of K and V: 2 is int16, 1 is int8
  size_t scale_bytes = sizeof(float);  // 0: there are none, as in a GPU's caches of floats, which no kernel here reads
  float score_scale = 0;               // of q.k; 0: 1 / sqrt(head_dim)
  float score_cap = 0;                 // scores s become score_cap tanh(s / score_cap); 0: they stay

  [[nodiscard]] int group_size() const { return n_heads / n_kv_heads; }
  [[nodiscard]] size_t head_bytes() const {
    return 2 * kKvPageLen * (static_cast<size_t>(number_bytes) * static_cast<size_t>(head_dim) + scale_bytes);
  }
};

/// One token's query heads of a unit's KV head.
struct AttentionToken {
  const float* q = nullptr;  // [group_size, head_dim]
  float* out = nullptr;      // the same; null: padding, computed and thrown away
  int position = 0;          // sees the positions first_seen .. position
  int first_seen = 0;        // above 0 where a sliding window has moved on
};

/// What a row (one query head of one token) knows after some of its chunks: o [head_dim], m, l and padding,
/// attention_state_len floats. A single chunk's has o unscaled and its factor u behind l.
inline int attention_state_len(int head_dim) { return head_dim + 16; }

/// The unit of attention work: tokens of one sequence, or of several whose pages of these chunks are the same, for one
/// KV head and the chunks [first_chunk, end_chunk). Chunks behind a token's own position, or in front of its window,
/// change nothing in its result, so tokens with nothing to do and chunks behind all positions (BASS-PAD) may be among
/// them; page pointers of padding chunks point to any readable page. What a position holds that a token does not see is
/// never used.
struct AttentionUnit {
  const AttentionToken* tokens = nullptr;  // [n_tokens]
  int n_tokens = 0;
  int first_chunk = 0;
  int end_chunk = 0;
  const std::byte* const* pages = nullptr;  // [end_chunk] base of each page, from position 0 on
  size_t head_offset = 0;                   // bytes from a page's base to this layer's and KV head's K
  /// [n_tokens, group_size, state] what the chunks in front of first_chunk gave; null: nothing is in front of them.
  const float* before = nullptr;
  /// [n_tokens, group_size, state] where the running softmax behind the last chunk goes; null: the tokens' out is
  /// written instead.
  float* state = nullptr;
  /// [end_chunk - first_chunk, n_tokens, group_size, state] where each chunk's own softmax goes, not merged; replaces
  /// `state`. A row that sees nothing of a chunk gets m = -inf. chunk_stride: floats from a chunk's to the next one's
  float* chunk_states = nullptr;
  ptrdiff_t chunk_stride = 0;
  /// Where the thread's next unit begins to read (a page's K of a head), or null: fetched while the last chunk is in
  /// work.
  const std::byte* next_head = nullptr;
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

/// A loop of one class of instructions from registers.
struct PeakLoop {
  int64_t (*run)(int64_t n_iterations) = nullptr;
  double operations = 0;  // of one iteration
};
/// Goes up when what they measure changes, so that what earlier ones measured is not taken for theirs.
inline constexpr int kPeakLoopsVersion = 2;

/// What stands between the two products of a feed-forward block.
enum class Activation { kSilu, kGeluTanh, kGelu, kRelu };
inline constexpr size_t kActivations = 4;

struct Kernels {
  Isa isa;
  const char* name;  // as BASS_FORCE_ISA spells it: scalar, avx2, avxvnni, avx512vnni, avx512amx
  /// Products of so many rows and more read the panels of quantised activations, where there are any. 0: none do.
  int min_panel_rows;

  /// out[i] = (x[i] * (1 / sqrt(mean(x^2) + eps))) * weight[i]. Sum of squares in 16 lanes (element i in lane i % 16,
  /// one FMA each, ascending), lanes added by the fixed tree (i with i + 8, then + 4, + 2, + 1). Any n. out may be x.
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);

  /// out[i] = fma(fl(fl(x[i] - mean) * (1 / sqrt(variance + eps))), weight[i], bias[i]); the sums of mean and variance
  /// (of fl(x[i] - mean)^2) as in rms_norm. out may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int n, float eps, float* out);

  /// Quantises the columns `cols` of the rows `rows` of `out`: row rows.begin + i from x + i * stride, which holds
  /// [cols.end - cols.begin]. The bounds of cols are multiples of kGroupLen (or, with n_planes 0, anything). Also
  /// copies to out.f32 where that is set, and to panels if this table's products read any. Touches no other row.
  void (*quantise)(const float* x, ptrdiff_t stride, WorkRange rows, WorkRange cols, const ActivationRows& out);

  /// out[r][c] (+)= sum_k W[c][k] x[r][k] for rows [0, n_rows) and the output channels of `tiles`.
  /// out: row r at out + r * out_stride, indexed from `first_channel`: channel c at out[c - first_channel]. Channels at
  /// or past n_out are not written. Stated order, for every channel and row, groups g (or elements k) ascending from
  /// acc = 0:
  ///   quantised: acc = fma(d_w, fl(d_x float(idot)), acc)      idot exact in int32, of the weights q - offset
  ///              then, in formats with minima, acc = fma(m_w, fl(d_x float(sum)), acc)
  ///   F32, F16, BF16: acc = fma(float(w), x, acc)
  /// and at the end acc = fl(acc + bias) where there is one, and out = acc, or with `accumulate` out = out + acc. d_w
  /// and m_w are the scale and the minimum of the format's own group (tensor/quant_format.h): f16 numbers; in the K
  /// formats d_w = fl(d s), m_w = -fl(m t) with the whole numbers s and t. Q2_K, Q3_K and Q6_K have groups of 16
  /// elements: half a group of the activations, whose d_x they share; sum is then over the same half.
  /// fetch: the thread's own, or null. Products of quantised weights with more than kMaxRowsWithoutFetch rows take from
  /// it.
  void (*matmul)(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, float* out,
                 int out_stride, int first_channel, bool accumulate, FetchQueue* fetch);

  /// Around products that follow one another on a thread: meanwhile its tiles (AMX) stay configured, and nothing else
  /// may use them (KeptTiles in amx_tiles_impl.h says what that saves). Null where there are none. See ProductScope.
  void (*keep_tiles)();
  void (*release_tiles)();

  /// out[i] = fl(up[i] * g) f(g) with g = gate[i]; up null: g f(g). out may be gate or up. f by Activation:
  ///   kSilu      / (1 + exp(-g))
  ///   kGeluTanh  / (1 + exp(-g fma(g^2, fl(.0713548), fl(1.5957691)))): g (1 + tanh(sqrt(2 / pi) (g + .044715 g^3))) /
  ///   2 kGelu      the normal distribution's function of g, within 4e-7 (math_impl.h, normal_tail) kRelu      1 where
  ///   g > 0, else 0
  std::array<void (*)(const float* gate, const float* up, int n, float* out), kActivations> activate;

  /// x[i] = soft_cap(x[i], cap) = cap - 2 cap / (1 + exp(x[i] (2 / cap))), which is cap tanh(x / cap). A NaN stays one.
  void (*soft_cap)(float* x, int n, float cap);

  /// Rotates neighbouring pairs (2i, 2i + 1) of the first rope_dim elements of a head in place (GGUF's "norm" rope).
  /// cos_pairs: [rope_dim] c0 c0 c1 c1 ...; sin_pairs: [rope_dim] -s0 s0 -s1 s1 ...
  /// y = fma(swapped(x), sin_pairs, fl(x * cos_pairs)). rope_dim is even.
  void (*rope)(float* head, int rope_dim, const float* cos_pairs, const float* sin_pairs);

  /// Writes one token's K and V head into slot `token_in_page` of a page, each rounded to whole numbers with one scale:
  /// scale = fl(size fl(1 / steps)), q = round-to-nearest-even(x * (steps / size)). int16: 32512 steps; K's size is its
  /// 2-norm (squares summed as in rms_norm), so that no dot product of two such heads leaves int32; V's is its largest
  /// absolute value. int8: 127 steps; both sizes are the largest absolute value. A size of at most 1e-30 counts as
  /// zero: scale 0, q 0. Numbers beyond +-65504 become that before. k, v: [head_dim]
  void (*write_kv)(const KvShape& shape, const float* k, const float* v, int token_in_page, std::byte* page_head);
  /// Asks for the cache lines that write_kv is going to write: as many as a head has pairs, and stores leave the
  /// processor in their order, one missing line after the other where nobody has asked for them.
  void (*ask_for_kv)(const KvShape& shape, int token_in_page, std::byte* page_head);

  /// Scaled dot-product attention of one unit, in int16 with exact int32 sums, so that their order does not matter.
  /// q is rounded as K is in int16, with scale s_q; c = fl(fl(log2 e) / sqrt(head_dim)), or fl(fl(log2 e) score_scale).
  /// With a score_cap, s_j becomes soft_cap(s_j, fl(score_cap fl(log2 e))). Per chunk, of the positions j that the row
  /// sees:
  ///   s_j = fl(fl(float(q.k_j) scale_k_j) fl(s_q c)), m_c = max s_j, p_j = 2^(s_j - m_c)      (exp2 below)
  ///   w_j = fl(p_j scale_v_j), W = sum w_j, l_c = sum p_j   (16 lanes: positions i and i + 16 added, then a fixed
  ///   tree) r_j = round(fl(w_j fl(32512 / W))), u = fl(W fl(1 / 32512)), O_c = float(sum r_j v_j) u  (W <= 1e-30: r_j
  ///   = 0)
  /// so the weights of a chunk are as fine as its sum allows. Chunks are merged in ascending order into (m, l, O),
  /// which start as (-inf, 0, 0), with m' = max(m, m_c), a = 2^(m - m'), b = 2^(m_c - m'):
  ///   l = fma(l_c, b, fl(l a)), O = fma(float(sum r_j v_j), fl(u b), fl(O a)); a chunk that it sees nothing of has b =
  ///   0
  /// and out = O / l + 0 (no negative zeros).
  void (*attend)(const KvShape& shape, const AttentionUnit& unit);

  /// Merges `n_rest` chunks' states of one row, `stride` floats apart, in ascending order into its state of the chunks
  /// in front of them.
  void (*merge_chunks)(int head_dim, float* state, const float* rest, size_t stride, int n_rest);
  /// The same for a row that has no more chunks: its result, with `first` as it was. out: [head_dim]
  void (*finish_attention)(int head_dim, const float* first, const float* rest, size_t stride, int n_rest, float* out);

  // out[i] = e^x[i], log(x[i]): the functions that all others use (math_impl.h has their ranges), n numbers.

  void (*exp)(const float* x, int n, float* out);
  void (*exp2)(const float* x, int n, float* out);  // 2^max(x, -60), for x <= 0
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
  /// The same where entry i of the row is the token ids[i]: gives the entry, and ties go to the lowest entry.
  int32_t (*gumbel_argmax_of)(const float* z, const TokenId* ids, int n, KeptSet kept, const RandomStream& stream);
  /// argmax over i of log(max(factor p_i - q_i, 0)) + Gumbel(stream, i); -1 if nothing is positive. q.n <= p.n. Each
  /// difference is one FMA. Computed as the argmax of (factor p_i - q_i) / E_i with the exponential noise E behind the
  /// Gumbel noise: the same order without logarithms.
  TokenId (*residual_argmax)(const ProbabilityRow& p, float factor, const ProbabilityRow& q,
                             const RandomStream& stream);
  /// sum over the entries i of q of min(factor p_t, q_i), t = ids[i]: what both distributions have in common. ids:
  /// [q.n] below p.n, none twice; nullptr: t = i. In 16 lanes and a fixed tree.
  float (*overlap)(const ProbabilityRow& p, float factor, const ProbabilityRow& q, const TokenId* ids);

  // Measuring the machine (machine_impl.h).

  std::array<PeakLoop, kOperationClasses> peak_loops;  // by OperationClass
  int64_t (*read_bytes)(const std::byte* data, size_t n_bytes);
};

/// Products that a thread computes one after the other, with whatever kernels between them: the thread's tiles are its
/// own for as long. Not nested.
class ProductScope {
 public:
  explicit ProductScope(const Kernels& kernels) : release_(kernels.release_tiles) {
    if (kernels.keep_tiles != nullptr) kernels.keep_tiles();
  }
  ~ProductScope() {
    if (release_ != nullptr) release_();
  }
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;

 private:
  void (*release_)();
};

/// The tables that this processor can run, best last. Scalar always.
int available_kernels(const Kernels** tables, int max_tables);

/// The best table, or the one that BASS_FORCE_ISA names. Error (kInvalidArgument) when that is unknown or this
/// processor lacks it, or when BASS_READ_AHEAD is unknown (read_ahead.h).
Result<const Kernels*> select_kernels();

const Kernels* find_kernels(Isa isa);  // nullptr when this processor lacks it

/// For tests: the kernels for AMX with plain loops in place of tiles. nullptr where AVX-512 VNNI is lacking.
const Kernels* emulated_amx();

}  // namespace bass::cpu
