// Calls of tools in what an assistant writes, and the schema of an answer that has to be one.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tools.h"

namespace bass {

struct ToolCall {
  std::string name;
  std::string arguments;  ///< a JSON object, as it was written; not all of it where the call was cut
  bool is_cut = false;
  size_t text_len = 0;  ///< bytes of its piece's text that are in front of it
};

/// What the answers of a call may call.
struct CallableTools {
  std::vector<std::string> names;
  bool only_one = false;   ///< a call an answer: further ones are dropped
  bool must_call = false;  ///< the answer is a call, as tool_call_schema has it
};

/// Finds the end of a JSON object or list in a text that grows.
class JsonEnd {
 public:
  /// begin: of the opening bracket
  explicit JsonEnd(size_t begin = 0) : at_(begin) {}
  /// The place behind the closing bracket; npos: it has not come yet.
  size_t find(std::string_view text);

 private:
  size_t at_;
  int depth_ = 0;
  bool is_in_string_ = false;
  bool is_escaped_ = false;
};

/// Tells text and calls of one answer apart while it comes. A call is a JSON object with a known "name" and
/// "arguments", or "parameters", that are an object, or a list of such, behind a <tool_call> (a </tool_call> may
/// follow), or as the whole answer. Anything else is text, but for
/// a call that must come: cut anywhere behind its name it is one with what there is of its arguments.
class ToolCallReader {
 public:
  /// none: all is text
  explicit ToolCallReader(std::shared_ptr<const CallableTools> tools) : tools_(std::move(tools)) {}

  struct Piece {
    std::string text;  ///< without blanks between it and a call; a line feed between texts around one
    std::vector<ToolCall> calls;
  };
  /// What is certain once `text` has come too.
  Piece take(std::string_view text);
  /// Adds the rest, at the answer's end.
  void finish(Piece* piece);

 private:
  enum class State : uint8_t {
    kBlank,      // nothing but blanks has come
    kWhole,      // it began as JSON does
    kText,       //
    kMarked,     // what is pending begins with blanks and <tool_call>
    kAfterCall,  // a </tool_call> may follow
  };

  /// Takes the next part of what is pending. False: more has to come, or nothing is left.
  bool advance(bool is_end, Piece* piece);
  bool begin(bool is_end);
  bool take_whole(bool is_end, Piece* piece);
  bool take_text(bool is_end, Piece* piece);
  bool take_marked(bool is_end, Piece* piece);
  bool pass_end_mark(bool is_end);
  void add_text(size_t n_bytes, Piece* piece);
  static void give(ToolCall call, Piece* piece);
  /// False: it is no call.
  bool add_calls(std::string_view json, Piece* piece);

  std::shared_ptr<const CallableTools> tools_;
  std::string pending_;
  State state_ = State::kBlank;
  JsonEnd json_end_;
  int n_false_marks_ = 0;
  bool is_scanning_ = false;   // json_end_ has begun behind the mark
  bool has_text_ = false;      // text has been given out
  bool follows_call_ = false;  // and none since the last call
  bool has_called_ = false;
};

/// A call of one of them, of any: {"name": ..., "arguments": ...}.
nlohmann::ordered_json tool_call_schema(std::span<const Tool> tools);

/// A call of one of them, or what the other schema says.
nlohmann::ordered_json tool_call_or(nlohmann::ordered_json other, std::span<const Tool> tools);

}  // namespace bass
