// The registry of architectures. A new one is a file like llama.cc and one line in architecture.cc.
#pragma once

#include <string>
#include <string_view>

#include "bass/status.h"
#include "io/gguf.h"
#include "model/model_file.h"

namespace bass {

struct Architecture {
  std::string_view name;  // as general.architecture has it
  Result<ModelConfig> (*read_config)(const GgufFile& gguf);
  Result<WeightRefs> (*find_weights)(const GgufFile& gguf, const ModelConfig& config);
};

/// Error names the supported architectures.
Result<const Architecture*> find_architecture(const GgufFile& gguf);

extern const Architecture kLlamaArchitecture;

/// Whether BASS computes a llama of this shape. source: a file's name, for the message.
Status check_llama_shape(const std::string& source, const ModelConfig& config);

}  // namespace bass
