// Calls of tools in what an assistant writes, and the schema of an answer that has to be one.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tools.h"

namespace bass {

struct ToolCall {
  std::string name;
  std::string arguments;  ///< a JSON object
};

/// Tells text and calls of one answer apart while it comes. Calls are what stands between <tool_call> and </tool_call>
/// (of the last one the end may be missing), or an answer that as a whole is a call or a list of them: a JSON object
/// with a known "name" and "arguments", or "parameters", that are an object. Anything else is text.
class ToolCallReader {
 public:
  /// names: of the tools that there are
  explicit ToolCallReader(std::vector<std::string> names) : names_(std::move(names)) {}

  struct Piece {
    std::string text;  ///< without blanks between it and a call; a line feed between texts around one
    std::vector<ToolCall> calls;
  };
  /// What is certain once `text` has come too.
  Piece take(std::string_view text);
  /// The rest, at the answer's end.
  Piece finish();

 private:
  /// Moves the next text or call from pending_ to the piece. False: more has to come.
  bool advance(Piece* piece);
  void add_text(std::string_view text, Piece* piece);
  [[nodiscard]] std::vector<ToolCall> read_calls(std::string_view json) const;

  std::vector<std::string> names_;
  std::string pending_;
  bool is_json_ = false;   // the answer began as JSON does: nothing is certain before its end
  bool has_text_ = false;  // text has been given out
  bool follows_call_ = false;
};

/// A call of one of them, of any: {"name": ..., "arguments": ...}.
nlohmann::ordered_json tool_call_schema(std::span<const Tool> tools);

}  // namespace bass
