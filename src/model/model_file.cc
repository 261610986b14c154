#include "model/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_weights.h"
#include "model/file_checks.h"
#include "model/fingerprint.h"
#include "model/gguf_vocab.h"
#include "model/model_source.h"
#include "model/synthetic_model.h"

namespace bass {
namespace {

Status check_same_vocabulary(const ModelFile& main, const ModelFile& draft) {
  const auto& main_tokens = main.vocab.tokens;
  const auto& draft_tokens = draft.vocab.tokens;
  const size_t n_common = std::min(main_tokens.size(), draft_tokens.size());
  for (size_t id = 0; id < n_common; ++id) {
    if (main_tokens[id] == draft_tokens[id]) continue;
    return invalid_file(fmt::format(
        "{}: has another vocabulary than the main model {} (token {} is '{}', the main model's is '{}'); a draft model "
        "must share the main model's vocabulary",
        draft.gguf->path(), main.gguf->path(), id, draft_tokens[id], main_tokens[id]));
  }
  // Ids beyond the common ones are padding if they are few; a truly larger vocabulary would tokenise text otherwise.
  const size_t n_more = std::max(main_tokens.size(), draft_tokens.size()) - n_common;
  if (n_more > std::max<size_t>(n_common / 20, 256)) {
    return invalid_file(
        fmt::format("{}: has {} tokens, the main model {} has {}; a draft model must share the main "
                    "model's vocabulary (padding apart)",
                    draft.gguf->path(), draft_tokens.size(), main.gguf->path(), main_tokens.size()));
  }
  return ok_status();
}

Status check_made_for(const ModelFile& main, const ModelFile& draft) {
  const MainModelUse& use = *draft.config.main;
  const std::string& path = draft.gguf->path();
  if (use.fingerprint != model_fingerprint(main.config, main.weights)) {
    return invalid_file(
        fmt::format("{}: was made for the main model '{}' and cannot draft for another one ({}); bass-draft make gives "
                    "one a draft of its own",
                    path, use.name, main.gguf->path()));
  }
  if (use.d_model != main.config.d_model || use.vocab_size != main.config.vocab_size) {
    return invalid_file(fmt::format("{}: says that its main model has embeddings of {} x {}, but {} has {} x {}", path,
                                    use.vocab_size, use.d_model, main.gguf->path(), main.config.vocab_size,
                                    main.config.d_model));
  }
  const auto n_tokens = static_cast<int>(main.vocab.tokens.size());
  if (!use.vocabulary.empty() && use.vocabulary.back() >= n_tokens) {
    return invalid_file(
        fmt::format("{}: proposes token {}, but its main model's last is {} (key "
                    "'bass-draft.vocabulary')",
                    path, use.vocabulary.back(), n_tokens - 1));
  }
  if (!use.tap_layers.empty() && use.tap_layers.back() >= main.config.n_layers) {
    return invalid_file(fmt::format("{}: reads layer {} of its main model, which has {}", path, use.tap_layers.back(),
                                    main.config.n_layers));
  }
  return ok_status();
}

}  // namespace

Result<ModelFile> load_model_file(const std::string& path, std::optional<DType> quantise, int n_threads) {
  BASS_ASSIGN_OR_RETURN(GgufFile gguf, open_model(path, quantise, n_threads));
  ModelFile model;
  model.gguf = std::make_unique<GgufFile>(std::move(gguf));
  BASS_ASSIGN_OR_RETURN(const Architecture* architecture, find_architecture(*model.gguf));
  BASS_ASSIGN_OR_RETURN(model.config, architecture->read_config(*model.gguf));
  BASS_ASSIGN_OR_RETURN(model.weights, find_decoder_weights(*model.gguf, model.config));
  if (!model.config.main) {
    BASS_ASSIGN_OR_RETURN(model.vocab, load_vocab(*model.gguf));
  }
  BASS_RETURN_IF_ERROR(check_vocab_size(path, std::ssize(model.vocab.tokens), model.config.vocab_size));
  const std::string file_name = std::filesystem::path(path).stem().string();
  BASS_ASSIGN_OR_RETURN(const std::string_view name, model.gguf->get_string_or("general.name", file_name));
  model.config.name = name;
  BASS_ASSIGN_OR_RETURN(model.config.is_synthetic, model.gguf->get_bool_or(kSyntheticKey, false));
  for (const TensorInfo& tensor : model.gguf->tensors()) {
    int64_t n_elements = 1;
    for (const int64_t len : tensor.shape) n_elements *= len;
    model.n_params += n_elements;
    model.weight_bytes += static_cast<int64_t>(tensor.data.size());
  }
  model.file_bytes = model.gguf->file_bytes();
  ThreadTeam team(threads_or_all(n_threads));
  BASS_RETURN_IF_ERROR(check_weights(*model.gguf, &team));
  return model;
}

Status check_draft_fits(const ModelFile& main, const ModelFile& draft) {
  return draft.config.main ? check_made_for(main, draft) : check_same_vocabulary(main, draft);
}

}  // namespace bass
