// The tokenizer of a Hugging Face model directory.
#pragma once

#include <string>

#include "bass/status.h"
#include "text/vocab.h"

namespace bass {

/// Reads tokenizer.json or, where there is none, tokenizer.model, and beside it what there is of
/// tokenizer_config.json, special_tokens_map.json, generation_config.json, config.json and chat_template.jinja: begin,
/// end, padding tokens, whether to add them, added tokens, the chat template. Errors (kInvalidFile, naming the file):
/// neither file, broken files, a kind of tokenizer that BASS does not know.
Result<VocabData> load_hf_vocab(const std::string& directory);

}  // namespace bass
