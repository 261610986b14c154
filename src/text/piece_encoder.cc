#include "text/piece_encoder.h"

#include <algorithm>
#include <cstring>

namespace bass {

void for_each_word(std::string_view piece, bool is_cut_at_spaces,
                   const std::function<void(std::string_view)>& function) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  while (is_cut_at_spaces) {
    size_t at = 0;
    while (piece.substr(at).starts_with(kSpace)) at += kSpace.size();
    at = piece.find(kSpace, at);
    if (at == piece.npos) break;
    function(piece.substr(0, at));
    piece.remove_prefix(at);
  }
  if (!piece.empty()) function(piece);
}

bool PieceCache::find(std::string_view piece, std::vector<TokenId>& out) {
  constexpr size_t kMinPieces = 256;
  slot_ = nullptr;
  if (piece.size() > kMaxBytes || ++n_pieces_ < kMinPieces) return false;
  if (slots_.empty()) slots_.resize(kNSlots);
  const size_t hash = std::hash<std::string_view>{}(piece);
  Slot& slot = slots_[hash % kNSlots];
  if (slot.n_tokens > 0 && slot.n_bytes == piece.size() &&
      std::memcmp(slot.text.data(), piece.data(), piece.size()) == 0) {
    out.insert(out.end(), slot.ids.begin(), slot.ids.begin() + slot.n_tokens);
    return true;
  }
  slot_ = &slot;
  piece_ = piece;
  return false;
}

void PieceCache::keep(const std::vector<TokenId>& out, size_t begin) {
  const size_t n_tokens = out.size() - begin;
  if (slot_ == nullptr || n_tokens == 0 || n_tokens > kMaxTokens) return;
  slot_->n_bytes = static_cast<uint8_t>(piece_.size());
  slot_->n_tokens = static_cast<uint8_t>(n_tokens);
  std::ranges::copy(piece_, slot_->text.begin());
  std::copy(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), slot_->ids.begin());
}

}  // namespace bass
