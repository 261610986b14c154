// A SentencePiece model file (tokenizer.model).
#pragma once

#include <string>
#include <string_view>

#include "bass/status.h"
#include "text/vocab.h"

namespace bass {

/// The vocabulary of the bytes of a tokenizer.model: BPE ("llama") or unigram ("t5"). `source` names the file in
/// messages. Errors (kInvalidFile): a broken file (at which byte), another kind of model, options that change how text
/// is treated and that BASS does not know.
Result<VocabData> parse_sentencepiece(std::string_view bytes, const std::string& source);

}  // namespace bass
