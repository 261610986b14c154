#include "server/reasoning.h"

#include <utility>

#include "text/text_marks.h"
#include "text/thoughts.h"

namespace bass {
void ReasoningReader::begin_inside() {
  if (state_ == State::kBlank) state_ = State::kInside;
}

// False: more has to come.
bool ReasoningReader::begin() {
  const size_t n_blanks = skip_blanks(pending_);
  blanks_.append(pending_, 0, n_blanks);
  pending_.erase(0, n_blanks);
  if (pending_.starts_with(kThoughtsBegin)) {
    blanks_.clear();
    pending_.erase(0, kThoughtsBegin.size());
    state_ = State::kInside;
    return true;
  }
  if (kThoughtsBegin.starts_with(pending_)) return false;
  state_ = State::kAnswer;
  return true;
}

/// Blanks at its end wait for what follows.
void ReasoningReader::add_thoughts(std::string_view text, Piece* piece) {
  const size_t n = len_without_blanks(text);
  if (n > 0) {
    const size_t first = has_thought_ ? 0 : skip_blanks(text);
    if (has_thought_) piece->reasoning += blanks_;
    piece->reasoning += text.substr(first, n - first);
    blanks_.clear();
    has_thought_ = true;
  }
  blanks_ += text.substr(n);
}

// False: the mark has not come.
bool ReasoningReader::end_thoughts(Piece* piece) {
  const size_t mark = pending_.find(kThoughtsEnd);
  const bool has_ended = mark != pending_.npos;
  const size_t n_certain = has_ended ? mark : pending_.size() - n_begun(pending_, kThoughtsEnd);
  add_thoughts(std::string_view(pending_).substr(0, n_certain), piece);
  pending_.erase(0, has_ended ? mark + kThoughtsEnd.size() : n_certain);
  if (!has_ended) return false;
  blanks_.clear();
  state_ = State::kBehind;
  return true;
}

void ReasoningReader::add_answer(Piece* piece) {
  piece->answer += blanks_;
  piece->answer += pending_;
  blanks_.clear();
  pending_.clear();
}

void ReasoningReader::advance(Piece* piece) {
  if (state_ == State::kBlank && !begin()) return;
  if (state_ == State::kInside && !end_thoughts(piece)) return;
  if (state_ == State::kBehind) {
    pending_.erase(0, skip_blanks(pending_));
    if (pending_.empty()) return;
    state_ = State::kAnswer;
  }
  add_answer(piece);
}

ReasoningReader::Piece ReasoningReader::take(std::string_view text) {
  Piece piece;
  pending_ += text;
  advance(&piece);
  return piece;
}

void ReasoningReader::finish(Piece* piece) {
  if (state_ != State::kInside) return add_answer(piece);
  add_thoughts(pending_, piece);
  pending_.clear();
}

void ThoughtCount::take(std::string_view text) {
  using Part = ThoughtsPlace::Part;
  if (is_over()) return;
  const Part before = std::exchange(place_, behind_token(place_, text)).part;
  ++n_blank_;
  if (place_.part == Part::kBefore) return;
  if (before == Part::kInside || place_.part == Part::kInside) n_ += n_blank_;
  n_blank_ = 0;
}

}  // namespace bass
