// Models with random weights: the shape of a real model and nothing that it has learnt. For measuring speed and memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_team.h"
#include "bass/status.h"
#include "io/gguf_writer.h"
#include "model/config.h"
#include "tensor/dtype.h"
#include "text/vocab.h"

namespace bass {

/// The metadata key (a boolean) by which files say that their weights are random.
inline constexpr std::string_view kSyntheticKey = "bass.synthetic";

/// What a file is made from. config.name is the shape's; config.architecture is "llama".
struct SyntheticModel {
  ModelConfig config;
  bool is_head_tied = false;
  DType type = DType::kQ4_1;  ///< of all matrices: one of random_types(). Norms are F32
  uint64_t seed = 0;
  VocabData vocab;  ///< at most config.vocab_size tokens
};

/// A real model's shape, by name.
struct SyntheticShape {
  std::string_view name;
  int d_model;
  int d_ff;
  int n_layers;
  int n_heads;
  int n_kv_heads;
  int head_dim;
  int vocab_size;
  int context_len;
  float rope_base;
  bool is_head_tied;
};
std::span<const SyntheticShape> synthetic_shapes();

/// With the shape's own vocabulary.
SyntheticModel make_synthetic_model(const SyntheticShape& shape);

/// A byte-level BPE vocabulary whose tokens are the bytes, pairs of lower-case letters, pairs of such pairs, and last
/// an end token; beyond that (and 458 thousand tokens) there are none. n_tokens >= 257.
VocabData synthetic_vocab(int n_tokens);

/// Fills a shorter vocabulary up with unused tokens "[PAD0]", ... : other programs want a token for each row.
void pad_vocab(int n_tokens, VocabData* vocab);

/// Error (kInvalidFile): a shape that BASS does not compute, or a vocabulary that does not fit. source: for messages.
Status check_synthetic_model(const SyntheticModel& model, const std::string& source);

/// Bytes of the file that write_synthetic_model makes.
int64_t synthetic_file_bytes(const SyntheticModel& model);

/// Writes the GGUF file: the same bytes for the same model, whatever the team. Activations and logits stay of order 1
/// (of a language model's size, for the logits). Memory: a few MiB and the vocabulary. Errors are the sink's.
Status write_synthetic_model(const SyntheticModel& model, ThreadTeam* team, const ByteSink& sink);

}  // namespace bass
