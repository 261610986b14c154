// A checkpoint's directory: config.json, the tokenizer and the tensors.
#pragma once

#include <string>

namespace bass {

/// The directory itself, or the one that the named .safetensors file or index lies in.
std::string checkpoint_directory(const std::string& path);

}  // namespace bass
