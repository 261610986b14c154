// Where models come from: a GGUF file, or a checkpoint in Hugging Face's layout. Either is given in a GGUF file's
// terms.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "bass/status.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "model/tensor_recipe.h"
#include "text/vocab.h"

namespace bass {

/// A model's metadata, and how its tensors are made from the files that `gguf` owns.
struct ModelSource {
  GgufFile gguf;
  std::vector<TensorRecipe> recipes;  ///< in the order of a GGUF file of this model
};

/// Whether a path names a checkpoint: a directory, or a .safetensors file or index.
bool is_checkpoint(const std::string& path);

/// Opens a GGUF file or a checkpoint; tensors are not read, but a checkpoint's fit its config.json. Errors are
/// kInvalidFile.
Result<ModelSource> open_model_source(const std::string& path);

/// A checkpoint. vocab: nullptr: the directory's own.
Result<ModelSource> open_checkpoint(const std::string& path, const VocabData* vocab);

/// The model as if it had been a GGUF file: tensors that are as they should be stay in their files, the others are made
/// in memory. Error: kResourceExhausted, or make_tensor's.
Result<GgufFile> make_gguf(ModelSource source, ThreadTeam* team);

/// The same for running a model. quantise: matrices of numbers become this type; nullopt: as they are. A GGUF file that
/// nothing is done to is only opened. n_threads: 0: all.
Result<GgufFile> open_model(const std::string& path, std::optional<DType> quantise, int n_threads);

/// Writes the model as one GGUF file, tensor by tensor: the same bytes whatever the team. Memory: the largest tensor.
/// Errors are the sink's and make_tensor's.
Status write_gguf(const ModelSource& source, ThreadTeam* team, const ByteSink& sink);

/// Bytes of the file that write_gguf makes.
int64_t gguf_bytes(const ModelSource& source);

/// The tokenizer of a GGUF file or a checkpoint.
Result<VocabData> open_vocab(const std::string& path);

}  // namespace bass
