// How a batch's attention is cut into units of work: the paper's two layouts behind one interface.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "bass/engine.h"
#include "cache/page_pool.h"
#include "kernels/cpu/kernels.h"

namespace bass::cpu {

/// The rows of one sequence in a batch.
struct ForwardSegment {
  int row_begin = 0;
  int n_tokens = 0;
  int start = 0;           // position of its first row
  bool is_decode = false;  // decodes or verifies; else it is a prompt's chunk
  std::span<const PageId> pages;
};

/// A unit before it is bound to a layer.
struct PlannedUnit {
  int row_begin = 0;  // row of its first token
  int start = 0;      // position of its first token
  int kv_head = 0;
  int n_tokens = 0;
  int n_padded_tokens = 0;
  int n_chunks = 0;
  size_t pages_begin = 0;  // index into page_pointers
};

/// SPLIT (BASS section 3.2): every sequence on its own, with its own lengths. PAD: the sequences that decode or verify
/// are computed as one rectangle, padded to the longest draft and to the longest context; padding is computed and
/// thrown away. Prompt chunks are never padded against: they are cut into units of kPrefillUnitTokens instead.
/// Both give the same bits, because a row's arithmetic is chunk by chunk at absolute positions.
struct AttentionPlan {
  std::vector<PlannedUnit> units;
  std::vector<const std::byte*> page_pointers;

  /// Room for any batch of so many rows, segments and chunks a segment, so that `build` allocates nothing.
  void reserve(size_t n_rows, size_t n_segments, size_t max_chunks, const KvShape& shape);

  /// `page_base` is where page 0 lies; pages are page_bytes apart.
  void build(AttentionKind kind, std::span<const ForwardSegment> segments, const KvShape& shape,
             const std::byte* page_base, size_t page_bytes);

 private:
  void add_units(const ForwardSegment& segment, const KvShape& shape, int n_padded_tokens, int n_chunks);
};

}  // namespace bass::cpu
