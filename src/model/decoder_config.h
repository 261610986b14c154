// Reading a model's shape from the metadata keys that all architectures share.
#pragma once

#include <string>
#include <string_view>

#include "bass/status.h"
#include "io/gguf.h"
#include "model/config.h"

namespace bass {

// Larger sizes in a file are faults of the file.
constexpr int kMaxDim = 1 << 20;
constexpr int kMaxVocab = 1 << 24;

/// Fills in what the keys "ARCHITECTURE.*" say of sizes, norm, rope (with its scaling), window and experts, and checks
/// that BASS computes such a shape. `config` comes with the properties of the architecture: norm and rope_pairs matter
/// here. A window is given to all layers.
Status read_decoder_config(const GgufFile& gguf, std::string_view architecture, ModelConfig* config);

/// Layers of sliding windows with one of full attention after each period - 1 of them: the last of every period. The
/// keys "ARCHITECTURE.attention.sliding_window_pattern" (a period, or a flag a layer) take precedence.
Status read_window_pattern(const GgufFile& gguf, int period, ModelConfig* config);

/// "ARCHITECTURE.key"
std::string config_key(const ModelConfig& config, std::string_view key);

/// Whether BASS computes a decoder of this shape. source: a file's name, for the message.
Status check_decoder_shape(const std::string& source, const ModelConfig& config);

}  // namespace bass
