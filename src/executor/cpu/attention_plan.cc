#include "executor/cpu/attention_plan.h"

#include <algorithm>

namespace bass::cpu {
namespace {

// Tokens of a prompt chunk in one unit: enough rows to share each load of K and V, few enough to balance threads.
constexpr int kPrefillUnitTokens = 16;

int n_chunks_of(int n_positions) { return (n_positions + kKvPageLen - 1) / kKvPageLen; }

}  // namespace

void AttentionPlan::reserve(size_t n_rows, size_t n_segments, size_t max_chunks, const KvShape& shape) {
  units.reserve(n_rows * static_cast<size_t>(shape.n_kv_heads));
  page_pointers.reserve(n_segments * max_chunks);
}

void AttentionPlan::build(AttentionKind kind, std::span<const ForwardSegment> segments, const KvShape& shape,
                          const std::byte* page_base, size_t page_bytes) {
  units.clear();
  page_pointers.clear();
  int padded_tokens = 0;
  int padded_chunks = 0;
  if (kind == AttentionKind::kPad) {
    for (const ForwardSegment& segment : segments) {
      if (!segment.is_decode) continue;
      padded_tokens = std::max(padded_tokens, segment.n_tokens);
      padded_chunks = std::max(padded_chunks, n_chunks_of(segment.start + segment.n_tokens));
    }
  }
  for (const ForwardSegment& segment : segments) {
    const int n_own_chunks = n_chunks_of(segment.start + segment.n_tokens);
    const bool is_padded = kind == AttentionKind::kPad && segment.is_decode;
    const int n_chunks = is_padded ? padded_chunks : n_own_chunks;
    add_units(segment, shape, is_padded ? padded_tokens : 0, n_chunks);
    for (int i = 0; i < n_chunks; ++i) {  // padding chunks read the sequence's first page
      const PageId page = segment.pages[static_cast<size_t>(i < n_own_chunks ? i : 0)];
      page_pointers.push_back(page_base + static_cast<size_t>(page) * page_bytes);
    }
  }
}

void AttentionPlan::add_units(const ForwardSegment& segment, const KvShape& shape, int n_padded_tokens, int n_chunks) {
  const size_t pages_begin = page_pointers.size();
  const int step = segment.is_decode ? segment.n_tokens : kPrefillUnitTokens;
  for (int kv_head = 0; kv_head < shape.n_kv_heads; ++kv_head) {
    for (int token = 0; token < segment.n_tokens; token += step) {
      const int n_tokens = std::min(step, segment.n_tokens - token);
      const int n_needed_chunks = n_chunks_of(segment.start + token + n_tokens);
      units.push_back({segment.row_begin + token, segment.start + token, kv_head, n_tokens,
                       std::max(n_padded_tokens, n_tokens), n_padded_tokens > 0 ? n_chunks : n_needed_chunks,
                       pages_begin});
    }
  }
}

}  // namespace bass::cpu
