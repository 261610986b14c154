// What a tokenizer is made of, wherever it was read from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bass {

/// Kinds of tokens. The numbers are GGUF's.
enum class TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct VocabData {
  std::string source;                ///< for messages: the file it was read from
  std::string model;                 ///< "gpt2": byte-level BPE
  std::string pre;                   ///< rules of the pre-tokenizer: "smollm", "gpt-2"
  std::vector<std::string> tokens;   ///< text of each token, as byte-level BPE writes it
  std::vector<int32_t> token_types;  ///< TokenType of each token; empty: all are normal
  std::vector<std::string> merges;   ///< "left right", best first
  std::optional<int32_t> bos_id, eos_id, eot_id, unknown_id, padding_id;
  bool add_bos = false;
  bool add_eos = false;
  std::string chat_template;  ///< Jinja; empty if there is none
};

}  // namespace bass
