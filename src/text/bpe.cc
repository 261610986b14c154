#include "text/bpe.h"

#include <algorithm>

namespace bass {
namespace {

constexpr auto kLaterFirst = [](const auto& a, const auto& b) { return a.order > b.order; };  // a min-heap

}  // namespace

void BpeMerger::consider(int32_t left_idx) {
  const Symbol& left = symbols_[static_cast<size_t>(left_idx)];
  if (left.next == kNone) return;
  const TokenId right_id = symbols_[static_cast<size_t>(left.next)].id;
  const BpeMerges::Merge* merge = merges_.find(left.id, right_id);
  if (merge == nullptr) return;
  const uint64_t order = uint64_t{merge->rank} << 32 | static_cast<uint32_t>(left_idx);
  heap_.push_back({order, left.id, right_id, merge->result});
  std::ranges::push_heap(heap_, kLaterFirst);
}

void BpeMerger::apply(int32_t left_idx, TokenId result) {
  Symbol& left = symbols_[static_cast<size_t>(left_idx)];
  Symbol& right = symbols_[static_cast<size_t>(left.next)];
  left.id = result;
  right.id = kNone;
  left.next = right.next;
  if (left.next != kNone) symbols_[static_cast<size_t>(left.next)].prev = left_idx;
  if (left.prev != kNone) consider(left.prev);
  consider(left_idx);
}

void BpeMerger::merge(std::span<const TokenId> piece, std::vector<TokenId>& out) {
  if (piece.empty()) return;
  symbols_.clear();
  heap_.clear();
  const auto n = static_cast<int32_t>(piece.size());
  for (int32_t i = 0; i < n; ++i) symbols_.push_back({piece[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : kNone});
  for (int32_t i = 0; i + 1 < n; ++i) consider(i);
  while (!heap_.empty()) {
    const Candidate best = heap_.front();
    std::ranges::pop_heap(heap_, kLaterFirst);
    heap_.pop_back();
    const auto left_idx = static_cast<int32_t>(best.order & 0xFFFFFFFFu);
    const Symbol& left = symbols_[static_cast<size_t>(left_idx)];
    if (left.id != best.left || left.next == kNone) continue;
    if (symbols_[static_cast<size_t>(left.next)].id != best.right) continue;
    apply(left_idx, best.result);
  }
  for (int32_t i = 0; i != kNone; i = symbols_[static_cast<size_t>(i)].next) {
    out.push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

}  // namespace bass
