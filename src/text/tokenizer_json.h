// A Hugging Face tokenizer.json.
#pragma once

#include <string>
#include <string_view>

#include "bass/status.h"
#include "text/vocab.h"

namespace bass {

/// The vocabulary, with its rules, of the text of a tokenizer.json: models BPE and Unigram. `source` names the file in
/// messages. Where GGUF has no words for the rules, huggingface_json keeps the text. Errors (kInvalidFile): no JSON,
/// nested deeper than 64, more than 2^20 values beside vocabulary and merges, a key that is missing or of a wrong type,
/// a part that BASS does not know. What the values mean together is checked by Tokenizer::create.
Result<VocabData> parse_tokenizer_json(std::string_view text, const std::string& source);

}  // namespace bass
