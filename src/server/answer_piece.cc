#include "server/answer_piece.h"

#include <fmt/format.h>

#include <utility>

#include "base/digest.h"

namespace bass {

AnswerPiece AnswerReader::take(std::string_view text, bool is_end) {
  ReasoningReader::Piece parts = reasoning_.take(text);
  if (is_end) reasoning_.finish(&parts);
  AnswerPiece piece{std::move(parts.reasoning), calls_.take(parts.answer)};
  if (is_end) calls_.finish(&piece.answer);
  return piece;
}

std::string tool_call_id(std::string_view answer_id, size_t choice_idx, size_t idx) {
  constexpr size_t kIdLen = 9;
  Digest digest = Digest::sha256();
  digest.update(fmt::format("{} {} {}", answer_id, choice_idx, idx));
  return digest.finish().substr(0, kIdLen);
}

}  // namespace bass
