// The tokenizer's data from a GGUF file's metadata.
#pragma once

#include "bass/status.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "text/vocab.h"

namespace bass {

/// Works with vocabulary-only files too. A tokenizer.json under tokenizer.huggingface.json says how text is treated, if
/// it is there: the tokenizer.ggml keys cannot express every rule. Errors (kInvalidFile): keys that are missing or of a
/// wrong kind. What the values mean is checked by Tokenizer::create.
Result<VocabData> load_vocab(const GgufFile& file);

/// Forgets added tokens at the end of a vocabulary of more than n_tokens, for which a model has no rows (of Gemma 3's
/// text models: that of images). Tokens of the vocabulary itself stay.
void drop_added_tokens(size_t n_tokens, VocabData& vocab);

/// The metadata from which load_vocab makes the same tokenizer again. Rules that have no name in GGUF go along as their
/// tokenizer.json; `pre` is then "default" for readers that look no further.
void add_vocab(const VocabData& vocab, GgufWriter* writer);

}  // namespace bass
