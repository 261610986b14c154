// One pass's rows and segments as kernels read them. Plain rows, uploaded in one copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/host_device.h"

namespace bass::cuda {

/// Positions of a KV page and of an attention chunk: the CPU's (chunks at absolute places).
inline constexpr int kPageLen = 32;

/// The token of a row whose pass is queued before it is known: an earlier pass will draft it, to this place of the
/// memory that drafted tokens have (token_of, rows/embed_rows.h). Its own inverse.
constexpr int32_t drafted_later(int place) { return -1 - place; }

/// One token of one sequence in a pass.
struct DeviceRow {
  int32_t token = 0;  // below 0: drafted_later
  int32_t position = 0;
  int32_t segment = 0;     // index into the pass's DeviceSegments
  int32_t hidden_row = 0;  // of a draft that reads hidden states: a kept row, or -1: the main model's pages
};

/// The rows [first_row, first_row + n_rows) of one sequence, at the positions [start, start + n_rows). Its cache holds
/// the positions in front of `start`.
struct DeviceSegment {
  int32_t first_row = 0;
  int32_t n_rows = 0;  // may be 0
  int32_t start = 0;
  int32_t is_decode = 0;        // it decodes or verifies, and is no prompt's chunk
  int32_t first_page = 0;       // where its page ids begin in the pass's array of them
  int32_t n_pages = 0;          // at least ceil((start + n_rows) / kPageLen)
  int32_t max_text_len = 0;     // that the sequence may reach: chooses among tables of rotations
  int32_t first_main_page = 0;  // of a draft that reads hidden states: where the main model's page ids begin
};

/// What keys and values are cached as, as the engine's KvKind. Whole numbers have a scale a token and head, as on the
/// CPU; floats have none, and are a GPU's alone.
enum class KvNumbers : int32_t { kInt16, kInt8, kF16, kBf16 };
BASS_HD constexpr bool is_float(KvNumbers numbers) { return numbers == KvNumbers::kF16 || numbers == KvNumbers::kBf16; }
BASS_HD constexpr int bytes_of(KvNumbers numbers) { return numbers == KvNumbers::kInt8 ? 1 : 2; }

/// A model's KV memory, and where a KV head of a layer lies in a page: in the CPU's layout (kernels/cpu/kernels.h,
/// KvShape): K [head_dim / 2, kPageLen, 2], V [kPageLen / 2, head_dim, 2], then of whole numbers the scales of K and of
/// V, fp32 [kPageLen] each. No position ever holds a float that is not finite, also where nothing was written yet: what
/// a row does not see has the weight 0, and is multiplied by it.
struct DeviceKv {
  std::byte* pages = nullptr;  // [n_pages, page_bytes]
  int64_t page_bytes = 0;
  int64_t layer_bytes = 0;
  int64_t head_bytes = 0;
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;  // a multiple of 16
  KvNumbers numbers = KvNumbers::kInt16;
  float score_factor = 0;  // fl(log2 e / sqrt(head_dim)) or fl(log2 e score_scale): c of kernels.h, "attend"
  float score_cap = 0;     // fl(score_cap log2 e), or 0: none
};

/// The parts of a pass that all of its kernels read, in device memory.
struct DeviceBatch {
  const DeviceRow* rows = nullptr;          // [n_rows]
  const DeviceSegment* segments = nullptr;  // [n_segments]
  const int32_t* pages = nullptr;           // page ids, DeviceSegment::first_page
  int32_t n_rows = 0;
  int32_t n_segments = 0;
  int32_t max_kv_len = 0;  // an upper bound of start + n_rows over the sequences that decode; 0: there are none
};

}  // namespace bass::cuda
