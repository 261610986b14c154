// The tokenizer's data from a GGUF file's metadata.
#pragma once

#include "bass/status.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "text/vocab.h"

namespace bass {

/// Works with vocabulary-only files too. Errors (kInvalidFile): keys that are missing or of a wrong kind. What the
/// values mean is checked by Tokenizer::create.
Result<VocabData> load_vocab(const GgufFile& file);

/// The metadata from which load_vocab makes the same data again.
void add_vocab(const VocabData& vocab, GgufWriter* writer);

}  // namespace bass
