// The rules of a tokenizer as plain data: what happens to a text before its pieces become tokens, and back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bass/types.h"

namespace bass {

/// What becomes of the matches of a splitting expression. The names are those of Hugging Face tokenizers.
enum class SplitBehavior : uint8_t {
  kIsolated,            ///< each match is a piece
  kRemoved,             ///< matches vanish
  kMergedWithPrevious,  ///< a match ends the piece before it
  kMergedWithNext,      ///< a match begins the piece after it
  kContiguous,          ///< neighbouring matches are one piece
};

/// When a step puts a space (or its stand-in) before a piece that does not begin with one.
enum class SpacePrefix : uint8_t { kNever, kFirst /* the text's first piece only */, kAlways };

/// One step of the pre-tokenizer. Each runs on every piece that the steps before it left.
struct SplitStep {
  enum class Kind : uint8_t {
    kSplit,      ///< cuts at the matches of `pattern`
    kByteLevel,  ///< pieces are bytes from here on, spelled as GPT-2's alphabet spells them
    kMetaspace,  ///< spaces become `pattern`; pieces begin at it if `is_split`
    kPrefix,     ///< a space is put before pieces that have none
  };
  Kind kind = Kind::kSplit;
  std::string pattern;      ///< a regular expression in Oniguruma's syntax
  bool is_literal = false;  ///< `pattern` is no expression but the text itself
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool is_inverted = false;  ///< what lies between the matches counts as matches
  SpacePrefix prefix = SpacePrefix::kNever;
  bool is_split = true;

  bool operator==(const SplitStep&) const = default;
};

/// One step of the normaliser, which rewrites a text before it is cut.
struct NormalizeStep {
  enum class Kind : uint8_t {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kNmt,            ///< control characters vanish, odd spaces become spaces
    kStrip,          ///< white space at the ends vanishes
    kPrepend,        ///< `content` is put before a text that is not empty
    kReplace,        ///< matches of `pattern` become `content`
    kCharsmap,       ///< `content` is a SentencePiece charsmap, used by grapheme as Hugging Face does
    kSentencePiece,  ///< SentencePiece's own normaliser: charsmap in `content`, white space
  };
  Kind kind = Kind::kNfc;
  std::string pattern, content;
  bool is_literal = false;
  bool strips_left = false, strips_right = false;                     // kStrip
  bool adds_space_prefix = false, removes_extra_whitespaces = false;  // kSentencePiece

  bool operator==(const NormalizeStep&) const = default;
};

/// How pieces become tokens.
enum class PieceModel : uint8_t {
  kMergeRanks,    ///< byte-pair merging in the order of the merges
  kMergeScores,   ///< SentencePiece BPE: the pair whose token has the best score
  kUnigram,       ///< the best sum of scores, in double precision (Hugging Face)
  kUnigramFloat,  ///< the same in single precision, with user-defined symbols (SentencePiece)
};

/// What happens to spaces at the beginning of a decoded text.
enum class FirstSpace : uint8_t {
  kKeep,
  kStripOne,         ///< one space is not shown (a "Strip" decoder)
  kStripToken,       ///< SentencePiece: one is not shown if the first token begins with it
  kStripTokens,      ///< SentencePiece that removes extra spaces: one of each token, until there is text
  kStripFirstToken,  ///< all spaces of the first token (a "Metaspace" decoder)
};

/// How an added token is found in a text.
struct AddedToken {
  TokenId id = 0;
  bool strips_left = false, strips_right = false;  ///< it takes the white space beside it
  bool is_single_word = false;                     ///< only where no letter, digit or underscore touches it
  bool is_normalized = false;                      ///< it is looked for in the normalised text

  bool operator==(const AddedToken&) const = default;
};

struct TokenizerRules {
  std::vector<NormalizeStep> normalizer;
  std::vector<SplitStep> pre_tokenizer;
  PieceModel piece_model = PieceModel::kMergeRanks;
  bool is_byte_level = true;    ///< token texts spell bytes in GPT-2's alphabet
  bool ignores_merges = false;  ///< a piece that is a token needs no merging
  bool has_byte_fallback = false;
  bool fuses_unknown = false;  ///< neighbouring unknown characters become one unknown token
  FirstSpace first_space = FirstSpace::kKeep;
  std::vector<AddedToken> added_tokens;  ///< those with a property other than AddedToken's defaults

  /// How many times as long a text may be as what the rules make of it, in bytes; 0: any number.
  [[nodiscard]] int most_shrinking() const;
};

}  // namespace bass
