// The registry of architectures. A new one is a file like architectures/qwen2.cc and its lines here: what it computes
// is said by the properties of ModelConfig, and its tensors are found by them (decoder_weights.h).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "bass/status.h"
#include "io/gguf.h"
#include "model/config.h"

namespace bass {

class HfImport;

/// How a Hugging Face checkpoint becomes a GGUF file of the architecture: hf_import.h.
struct HfMapping {
  std::array<std::string_view, 3> model_types;  // config.json's "model_type"
  void (*import)(HfImport* import) = nullptr;
};

struct Architecture {
  std::string_view name;  // as general.architecture has it
  Result<ModelConfig> (*read_config)(const GgufFile& gguf);
  HfMapping hf;
};

extern const Architecture kLlamaArchitecture;
extern const Architecture kSmolLm3Architecture;
extern const Architecture kQwen2Architecture;
extern const Architecture kQwen3Architecture;
extern const Architecture kGemmaArchitecture;
extern const Architecture kGemma2Architecture;
extern const Architecture kGemma3Architecture;
extern const Architecture kPhi3Architecture;
extern const Architecture kGpt2Architecture;
extern const Architecture kGptNeoXArchitecture;
extern const Architecture kGptJArchitecture;
extern const Architecture kCodeGenArchitecture;
extern const Architecture kOptArchitecture;
extern const Architecture kStarCoder2Architecture;
extern const Architecture kStableLmArchitecture;
extern const Architecture kOlMoeArchitecture;
extern const Architecture kQwen3MoeArchitecture;
extern const Architecture kBassDraftArchitecture;

inline constexpr const Architecture* kArchitectures[] = {
    &kLlamaArchitecture,    &kSmolLm3Architecture,    &kQwen2Architecture,    &kQwen3Architecture,
    &kGemmaArchitecture,    &kGemma2Architecture,     &kGemma3Architecture,   &kPhi3Architecture,
    &kGpt2Architecture,     &kGptNeoXArchitecture,    &kGptJArchitecture,     &kCodeGenArchitecture,
    &kOptArchitecture,      &kStarCoder2Architecture, &kStableLmArchitecture, &kOlMoeArchitecture,
    &kQwen3MoeArchitecture, &kBassDraftArchitecture,
};

/// Error names the supported architectures.
Result<const Architecture*> find_architecture(const GgufFile& gguf);
/// By config.json's "model_type". config_path: for messages.
Result<const Architecture*> find_architecture_of_checkpoint(const std::string& model_type,
                                                            const std::string& config_path);

}  // namespace bass
