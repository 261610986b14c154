// Which model a file or a directory is.
#pragma once

#include <string>

#include "bass/status.h"

namespace bass {

/// 16 hexadecimal digits that change with the model: of a GGUF file (of all its shards, whichever is named) its size,
/// its first MiB and blocks from all over it; of a checkpoint, a directory or a .safetensors file in it, its
/// configuration and tokenizer, and of its weights' files the same. Names and places do not count. Reads 2 MiB of a
/// file of weights. Errors: a file that cannot be read (kInvalidFile), a folder that cannot (kInvalidArgument).
Result<std::string> model_digest(const std::string& path);

}  // namespace bass
