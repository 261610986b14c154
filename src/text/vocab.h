// What a tokenizer is made of, wherever it was read from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer_rules.h"

namespace bass {

/// Kinds of tokens. The numbers are GGUF's.
enum class TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

/// The score by which GGUF's writers mark a token that was added to a SentencePiece model: its text is cut out of a
/// text before SentencePiece sees what stands beside it, where the model's own user-defined tokens are found by
/// SentencePiece.
inline constexpr double kAddedScore = -1000;

struct VocabData {
  std::string source;      ///< for messages: the file it was read from
  std::string key_prefix;  ///< for messages: of the keys "merges" and "scores" in it; empty: it has no such keys
  /// GGUF's name of the kind: "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (SentencePiece unigram).
  std::string model;
  std::string pre;                   ///< of gpt2: the pre-tokenizer's rules by name ("smollm"); empty: "default"
  std::vector<std::string> tokens;   ///< text of each token, as the kind writes it
  std::vector<int32_t> token_types;  ///< TokenType of each token; empty: all are normal
  std::vector<std::string> merges;   ///< "left right", best first
  std::vector<double> scores;        ///< of each token: "llama" and "t5"
  std::optional<int32_t> bos_id, eos_id, eot_id, unknown_id, padding_id;
  std::vector<int32_t> more_end_ids;  ///< that end a turn, beside eos_id and eot_id
  bool add_bos = false;
  bool add_eos = false;
  // SentencePiece's normaliser.
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = false;
  bool strips_behind_special = false;  ///< white space behind control and user-defined tokens goes (Phi-3)
  std::string precompiled_charsmap;    ///< replacement rules, as SentencePiece stores them; empty if there are none
  std::string chat_template;           ///< Jinja; empty if there is none
  /// The rules of a tokenizer.json. Where they are absent, `model` and `pre` say which they are.
  std::optional<TokenizerRules> rules;
  /// The tokenizer.json itself, where GGUF's keys have no words for its rules; else empty.
  std::string huggingface_json;
};

}  // namespace bass
