// A draft made for one main model by bass-draft (docs/drafts.md): llama layers over the main model's embedding and, in
// the shape `feature`, its hidden states, with a vocabulary of its own choice.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/tensor_lookup.h"

namespace bass {
namespace {

constexpr std::string_view kName = "bass-draft";
constexpr int kMaxTapLayer = 1023;

/// Whole numbers from 0 to `high`, each larger than the one before.
Result<std::vector<int32_t>> read_ascending_or_none(const GgufFile& gguf, std::string_view name, int high) {
  const std::string key = fmt::format("{}.{}", kName, name);
  std::vector<int32_t> values;
  if (!gguf.has(key)) return values;
  BASS_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, gguf.get_int_array(key));
  int64_t last = -1;
  for (const int64_t number : numbers) {
    if (number <= last || number > high) {
      return invalid_file(fmt::format("{}: key '{}' holds {} behind {}, expected ascending numbers from 0 to {}",
                                      gguf.path(), key, number, last, high));
    }
    values.push_back(static_cast<int32_t>(number));
    last = number;
  }
  return values;
}

Result<std::optional<DType>> read_head_type(const GgufFile& gguf) {
  const std::string key = fmt::format("{}.main.head_type", kName);
  if (!gguf.has(key)) return std::optional<DType>();
  BASS_ASSIGN_OR_RETURN(const std::string_view type, gguf.get_string(key));
  if (type == "q4_0") return std::optional<DType>(DType::kQ4_0);
  return invalid_file(fmt::format(
      "{}: key '{}' is '{}', but must be 'q4_0', or absent where the main model's head is read in its own type",
      gguf.path(), key, type));
}

Result<MainModelUse> read_main(const GgufFile& gguf) {
  const auto key = [](std::string_view name) { return fmt::format("{}.main.{}", kName, name); };
  MainModelUse main;
  BASS_ASSIGN_OR_RETURN(main.fingerprint, gguf.get_string(key("fingerprint")));
  BASS_ASSIGN_OR_RETURN(main.name, gguf.get_string_or(key("name"), "unnamed"));
  BASS_ASSIGN_OR_RETURN(main.d_model, read_int(gguf, key("embedding_length"), 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(main.vocab_size, read_int(gguf, key("vocab_size"), 1, kMaxVocab));
  BASS_ASSIGN_OR_RETURN(main.tap_layers, read_ascending_or_none(gguf, "tap_layers", kMaxTapLayer));
  BASS_ASSIGN_OR_RETURN(main.vocabulary, read_ascending_or_none(gguf, "vocabulary", main.vocab_size - 1));
  BASS_ASSIGN_OR_RETURN(main.head_type, read_head_type(gguf));
  return main;
}

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config;
  BASS_ASSIGN_OR_RETURN(config.main, read_main(gguf));
  const MainModelUse& main = *config.main;
  config.vocab_size = main.vocabulary.empty() ? main.vocab_size : static_cast<int>(main.vocabulary.size());
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, kName, &config));
  const bool needs_equal = gguf.find_tensor("output.weight") == nullptr ||
                           (main.tap_layers.empty() && gguf.find_tensor("draft.input.weight") == nullptr);
  if (needs_equal && config.d_model != main.d_model) {
    return invalid_file(
        fmt::format("{}: its embedding length is {}, the main model's {}; they may only differ where it has the "
                    "tensors 'draft.input.weight' and 'output.weight'",
                    gguf.path(), config.d_model, main.d_model));
  }
  return config;
}

}  // namespace

const Architecture kBassDraftArchitecture{kName, read_config, {}};

}  // namespace bass
