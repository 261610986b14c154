#include "text/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/check.h"
#include "text/tokenizer_text.h"
#include "text/utf8.h"

namespace bass {
namespace {

using SplitKind = SplitStep::Kind;
using Piece = PreTokenizer::Pieces::Piece;

/// `text`, with each byte of invalid sequences replaced by a control character: one that no rule tells from other
/// characters that are neither letter, number nor space, and that is as long as what it replaces.
std::string mask_invalid(std::string_view text, size_t first_invalid) {
  std::string masked(text);
  for (size_t at = first_invalid; at < text.size();) {
    const Utf8Char c = first_utf8_char(text.substr(at));
    if (!c.valid) masked.replace(at, c.n_bytes, c.n_bytes, '\x01');
    at += c.n_bytes;
  }
  return masked;
}

/// A stretch of a piece: a match of the expression, or what lies between two.
struct Stretch {
  size_t begin = 0, end = 0;
  bool is_match = false;
};

/// All of `text` as stretches, in order. Empty matches cut, too.
Status find_stretches(const Regex& regex, std::string_view text, const Regex::Scratch& scratch,
                      std::vector<Stretch>& out) {
  out.clear();
  size_t covered = 0;
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= text.size();) {
    BASS_ASSIGN_OR_RETURN(const std::optional<Regex::Match> match, regex.find(text, from, scratch));
    if (!match.has_value()) break;
    if (match->begin == match->end && match->end == last_end) {  // empty, and right behind another match
      from += from < text.size() ? first_utf8_char(text.substr(from)).n_bytes : 1;
      continue;
    }
    if (covered < match->begin) out.push_back({covered, match->begin, false});
    out.push_back({match->begin, match->end, true});
    covered = from = match->end;
    last_end = match->end;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), false});
  return ok_status();
}

/// Merges stretches into pieces as `behavior` says. Works from behind for kMergedWithNext.
void merge_stretches(std::span<Stretch> stretches, SplitBehavior behavior, uint32_t base, std::vector<Piece>& out) {
  const auto piece_of = [&](const Stretch& s) {
    return Piece{base + static_cast<uint32_t>(s.begin), base + static_cast<uint32_t>(s.end)};
  };
  const size_t first_new = out.size();
  if (behavior == SplitBehavior::kMergedWithNext) std::ranges::reverse(stretches);
  bool was_match = false;
  for (const Stretch& stretch : stretches) {
    const bool has_piece = out.size() > first_new;
    const bool joins =
        has_piece && ((behavior == SplitBehavior::kContiguous && stretch.is_match == was_match) ||
                      (behavior == SplitBehavior::kMergedWithPrevious && stretch.is_match && !was_match) ||
                      (behavior == SplitBehavior::kMergedWithNext && stretch.is_match && !was_match));
    was_match = stretch.is_match;
    if (behavior == SplitBehavior::kRemoved && stretch.is_match) continue;
    if (!joins) {
      out.push_back(piece_of(stretch));
    } else if (behavior == SplitBehavior::kMergedWithNext) {
      out.back().begin = piece_of(stretch).begin;
    } else {
      out.back().end = piece_of(stretch).end;
    }
  }
  const auto added = out.begin() + static_cast<std::ptrdiff_t>(first_new);
  if (behavior == SplitBehavior::kMergedWithNext) std::reverse(added, out.end());
  out.erase(std::remove_if(added, out.end(), [](const Piece& p) { return p.begin == p.end; }), out.end());
}

}  // namespace

struct PreTokenizer::State {
  Pieces result;
  std::string masked;  // what expressions look at, where result.text is not valid UTF-8; else empty
  bool is_first = false;

  void set_text(std::string text) {
    result.text = std::move(text);
    const std::optional<size_t> invalid = find_invalid_utf8(result.text);
    masked = invalid.has_value() ? mask_invalid(result.text, *invalid) : std::string();
  }
  [[nodiscard]] std::string_view view() const { return masked.empty() ? result.text : masked; }
};

Result<PreTokenizer> PreTokenizer::create(const std::vector<SplitStep>& steps) {
  PreTokenizer pre_tokenizer;
  for (const SplitStep& rule : steps) {
    const bool is_spelled = std::ranges::any_of(
        pre_tokenizer.steps_, [](const Step& step) { return step.rule.kind == SplitKind::kByteLevel; });
    if (is_spelled && rule.kind != SplitKind::kSplit) {
      return invalid_file("only splits may follow the byte-level step of a pre-tokenizer");
    }
    Step step{rule, nullptr};
    if (rule.kind == SplitKind::kSplit || rule.kind == SplitKind::kMetaspace) {
      const bool is_literal = rule.is_literal || rule.kind == SplitKind::kMetaspace;
      BASS_ASSIGN_OR_RETURN(Regex regex, Regex::compile(rule.pattern, is_literal));
      step.regex = std::make_unique<Regex>(std::move(regex));
    }
    pre_tokenizer.steps_.push_back(std::move(step));
  }
  // A byte-level step at the end has nothing to do: nobody looks at its alphabet.
  if (!steps.empty() && steps.back().kind == SplitKind::kByteLevel) pre_tokenizer.steps_.pop_back();
  pre_tokenizer.is_spelled_ = std::ranges::any_of(
      pre_tokenizer.steps_, [](const Step& step) { return step.rule.kind == SplitKind::kByteLevel; });
  return pre_tokenizer;
}

Status PreTokenizer::cut(const Step& step, State& state, const Regex::Scratch& scratch) const {
  const bool is_metaspace = step.rule.kind == SplitKind::kMetaspace;
  const SplitBehavior behavior = is_metaspace ? SplitBehavior::kMergedWithNext : step.rule.behavior;
  std::vector<Piece> cut_pieces;
  cut_pieces.reserve(state.result.pieces.size());
  std::vector<Stretch> stretches;
  for (const Piece& piece : state.result.pieces) {
    const std::string_view text = state.view().substr(piece.begin, piece.end - piece.begin);
    BASS_RETURN_IF_ERROR(find_stretches(*step.regex, text, scratch, stretches));
    if (step.rule.is_inverted) {
      for (Stretch& stretch : stretches) stretch.is_match = !stretch.is_match;
    }
    merge_stretches(stretches, behavior, piece.begin, cut_pieces);
  }
  state.result.pieces = std::move(cut_pieces);
  return ok_status();
}

/// The steps that change the text: each piece is written anew.
void PreTokenizer::rewrite(const Step& step, State& state) const {
  const std::string_view space = step.rule.kind == SplitKind::kMetaspace ? std::string_view(step.rule.pattern) : " ";
  std::string text;
  text.reserve(state.result.text.size() + space.size());
  for (size_t i = 0; i < state.result.pieces.size(); ++i) {
    Piece& piece = state.result.pieces[i];
    std::string_view old = std::string_view(state.result.text).substr(piece.begin, piece.end - piece.begin);
    const bool has_space = old.starts_with(' ') || old.starts_with(space);
    const bool is_prefixed = step.rule.prefix == SpacePrefix::kAlways ||
                             (step.rule.prefix == SpacePrefix::kFirst && state.is_first && i == 0 && piece.begin == 0);
    piece.begin = static_cast<uint32_t>(text.size());
    if (is_prefixed && !has_space) text += space;
    for (; !old.empty(); old.remove_prefix(1)) {
      if (step.rule.kind == SplitKind::kByteLevel) {
        text += alphabet_.spell(static_cast<uint8_t>(old.front()));
      } else if (old.front() == ' ') {
        text += space;
      } else {
        text += old.front();
      }
    }
    piece.end = static_cast<uint32_t>(text.size());
  }
  state.set_text(std::move(text));
}

Result<PreTokenizer::Pieces> PreTokenizer::split(std::string text, bool is_first) const {
  State state;
  state.is_first = is_first;
  if (text.empty()) return Pieces{};
  state.result.pieces.push_back({0, static_cast<uint32_t>(text.size())});
  state.set_text(std::move(text));
  BASS_ASSIGN_OR_RETURN(const Regex::Scratch scratch, Regex::make_scratch());
  for (const Step& step : steps_) {
    if (step.rule.kind != SplitKind::kSplit) rewrite(step, state);
    if (state.result.text.size() > kMaxTextBytes) return invalid_argument("the text is too long; shorten it");
    if (step.regex != nullptr && step.rule.is_split) BASS_RETURN_IF_ERROR(cut(step, state, scratch));
  }
  if (!is_spelled_) return std::move(state.result);
  Pieces bytes;
  for (const Piece& piece : state.result.pieces) {
    const std::string_view spelled = std::string_view(state.result.text).substr(piece.begin, piece.end - piece.begin);
    const auto begin = static_cast<uint32_t>(bytes.text.size());
    const std::optional<std::string> spelled_bytes = alphabet_.to_bytes(spelled);
    BASS_CHECK(spelled_bytes.has_value());  // pieces are cut between characters, and steps behind spell nothing else
    bytes.text += *spelled_bytes;
    bytes.pieces.push_back({begin, static_cast<uint32_t>(bytes.text.size())});
  }
  return bytes;
}

}  // namespace bass
