// What a choice of an answer is made of: thoughts, text, and what was called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/api_call.h"
#include "server/reasoning.h"
#include "server/tool_calls.h"

namespace bass {

/// What all objects of an answer have in common.
struct ApiHead {
  std::string id;
  int64_t created_s = 0;  ///< seconds since 1970
  std::string model;
};

/// A part of a choice.
struct AnswerPiece {
  std::string reasoning;
  ToolCallReader::Piece answer;
  [[nodiscard]] bool empty() const { return reasoning.empty() && answer.text.empty() && answer.calls.empty(); }
};

/// Tells these apart while a choice's text comes.
class AnswerReader {
 public:
  explicit AnswerReader(const ApiShape& shape) : reasoning_(shape.parts_reasoning), calls_(shape.tools) {}
  /// The prompt ends where thoughts begin.
  void begin_inside() { reasoning_.begin_inside(); }
  /// What is certain once `text` has come too. is_end: nothing follows
  AnswerPiece take(std::string_view text, bool is_end);

 private:
  ReasoningReader reasoning_;
  ToolCallReader calls_;
};

/// The id of a choice's `idx`-th call, by which it is told from all others. Some models' templates want nine letters or
/// digits.
std::string tool_call_id(std::string_view answer_id, size_t choice_idx, size_t idx);

}  // namespace bass
