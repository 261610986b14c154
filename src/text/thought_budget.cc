#include "text/thought_budget.h"

#include "text/text_marks.h"

namespace bass {
namespace {

using Part = ThoughtsPlace::Part;

// One of its bytes as the first is at no other place of it: where a mark breaks off, at most that byte has come anew.
void match_end(char byte, ThoughtsPlace* place) {
  static_assert(kThoughtsEnd.find(kThoughtsEnd.front(), 1) == kThoughtsEnd.npos);
  if (byte != kThoughtsEnd[place->n_matched]) place->n_matched = 0;
  if (byte == kThoughtsEnd[place->n_matched]) ++place->n_matched;
  if (place->n_matched == kThoughtsEnd.size()) *place = {};
}

// Thoughts come first, but for blanks, or not at all.
void match_begin(char byte, ThoughtsPlace* place) {
  if (byte == kThoughtsBegin[place->n_matched]) {
    if (++place->n_matched == kThoughtsBegin.size()) *place = {.part = Part::kInside};
  } else if (place->n_matched > 0 || kBlanks.find(byte) == kBlanks.npos) {
    *place = {};
  }
}

}  // namespace

ThoughtsPlace thoughts_place(ThoughtsAhead thoughts) {
  switch (thoughts) {
    case ThoughtsAhead::kMayBegin:
      return {.part = Part::kBefore};
    case ThoughtsAhead::kBegun:
      return {.part = Part::kInside};
    case ThoughtsAhead::kNone:
      break;
  }
  return {};
}

ThoughtsPlace behind_token(ThoughtsPlace place, std::string_view bytes) {
  if (place.part == Part::kInside) ++place.n_tokens;
  for (const char byte : bytes) {
    switch (place.part) {
      case Part::kBefore:
        match_begin(byte, &place);
        break;
      case Part::kInside:
        match_end(byte, &place);
        break;
      case Part::kBehind:
        return place;
    }
  }
  return place;
}

std::string_view rest_of_thoughts_end(ThoughtsPlace place) { return kThoughtsEnd.substr(place.n_matched); }

}  // namespace bass
