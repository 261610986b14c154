// The pre-tokenizers that GGUF files name (`tokenizer.ggml.pre`).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bass/status.h"
#include "text/tokenizer_rules.h"

namespace bass {

/// The rules of a byte-level BPE vocabulary by name; an empty name means "default". Error (kInvalidFile): a name that
/// BASS does not know; the message lists those it knows.
Result<TokenizerRules> find_named_rules(std::string_view name);

/// The name under which a GGUF file says the same: the normaliser, the pre-tokenizer and how merges are used. None if
/// there is no such name.
std::optional<std::string> name_of_rules(const TokenizerRules& rules);

/// Whether files that name these rules and do not say so mean a begin token before every text.
bool adds_begin_by_default(std::string_view name);

/// GPT-2's expression, which a ByteLevel step runs by itself.
std::string_view gpt2_pattern();

}  // namespace bass
