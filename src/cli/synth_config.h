// --config of `bass synth`: a shape by name, or from a file.
#pragma once

#include <string>

#include "bass/status.h"
#include "model/synthetic_model.h"

namespace bass {

/// The shape that `config` names, with a vocabulary of its own: one of synthetic_shapes(), or a JSON file (a name with
/// '/' or ".json") with the keys of a Hugging Face config.json: hidden_size, intermediate_size, num_hidden_layers,
/// num_attention_heads, vocab_size, and where they differ from the defaults num_key_value_heads, head_dim,
/// max_position_embeddings, rope_theta, rms_norm_eps, tie_word_embeddings. Other keys, rope scaling among them, are not
/// part of the shape. Errors name the nearest known shape, or file and key.
Result<SyntheticModel> read_synth_config(const std::string& config);

}  // namespace bass
