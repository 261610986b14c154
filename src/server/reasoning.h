// What a model thinks before it answers, told apart from the answer (docs/server.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/thought_budget.h"

namespace bass {

/// Tells thoughts and answer of one text apart while it comes. Thoughts stand between <think> and </think> at its
/// beginning, as Qwen3, SmolLM3 and DeepSeek-R1 write them; all else is the answer. Blanks around both marks are of
/// neither.
class ReasoningReader {
 public:
  /// is_on: otherwise all is the answer
  explicit ReasoningReader(bool is_on) : state_(is_on ? State::kBlank : State::kAnswer) {}

  struct Piece {
    std::string reasoning;
    std::string answer;
  };

  /// The prompt ends with this mark: the text begins with thoughts. Before the first text.
  void begin_inside();
  /// What is certain once `text` has come too.
  Piece take(std::string_view text);
  /// Adds the rest, at the text's end. Thoughts that were cut are thoughts.
  void finish(Piece* piece);

 private:
  enum class State : uint8_t {
    kBlank,   // nothing but blanks and a part of the mark has come
    kInside,  //
    kBehind,  // blanks may follow
    kAnswer,
  };
  void advance(Piece* piece);
  bool begin();
  bool end_thoughts(Piece* piece);
  void add_thoughts(std::string_view text, Piece* piece);
  void add_answer(Piece* piece);

  State state_;
  bool has_thought_ = false;  // more than blanks
  std::string blanks_;        // in front of what is pending
  std::string pending_;
};

/// How many of an answer's tokens are thoughts, the marks around them among these.
class ThoughtCount {
 public:
  /// The prompt ends with the mark that begins them.
  void begin_inside() { place_ = thoughts_place(ThoughtsAhead::kBegun); }
  /// The next token's text.
  void take(std::string_view text);
  /// None of the next tokens is one.
  [[nodiscard]] bool is_over() const { return place_.part == ThoughtsPlace::Part::kBehind; }
  [[nodiscard]] int64_t n() const { return n_; }

 private:
  ThoughtsPlace place_ = thoughts_place(ThoughtsAhead::kMayBegin);
  int64_t n_ = 0;
  int64_t n_blank_ = 0;  // in front of what they may be
};

}  // namespace bass
