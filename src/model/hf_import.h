// Hugging Face checkpoints in a GGUF file's terms: config.json becomes metadata, and each tensor gets the name and the
// layout that a GGUF file of the same model has. So an architecture is written once, against GGUF.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "bass/status.h"
#include "io/gguf_writer.h"
#include "io/json_leaves.h"
#include "io/safetensors.h"
#include "model/tensor_recipe.h"

namespace bass {

/// What is done to a tensor on its way.
struct TensorMaking {
  std::vector<int32_t> rows;   ///< row r of the result is row rows[r] of the checkpoint's; empty: all in order
  bool is_transposed = false;  ///< the checkpoint has [n_in, n_out] (GPT-2's Conv1D)
  float addend = 0.0F;         ///< to each element (Gemma's norms)
  std::vector<int64_t> shape;  ///< of the result where `rows` are not its last dimension, in GGUF's order
};

/// What a mapping reads and writes. The first error is kept and ends the import; until then everything can be called.
class HfImport {
 public:
  /// architecture: GGUF's name, the prefix of its metadata. config_path: for messages.
  HfImport(std::string architecture, std::string config_path, const std::map<std::string, JsonLeaf>* config,
           const SafetensorsCheckpoint* checkpoint);

  // config.json, nested keys written "a.b". Values of a wrong kind are errors; null counts as missing.
  [[nodiscard]] bool has(const std::string& key) const;
  [[nodiscard]] bool is_null(const std::string& key) const;  ///< there, as null
  /// The one of these keys that is there: configurations differ in names. None: "".
  [[nodiscard]] std::string first_of(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] int64_t integer(const std::string& key);
  [[nodiscard]] int64_t integer_or(const std::string& key, int64_t fallback);
  [[nodiscard]] double number(const std::string& key);
  [[nodiscard]] double number_or(const std::string& key, double fallback);
  [[nodiscard]] bool flag_or(const std::string& key, bool fallback);
  [[nodiscard]] std::string text_or(const std::string& key, const std::string& fallback);
  /// An error where the key is there with another value: BASS would compute something else.
  void expect_flag(const std::string& key, bool value);
  void expect_text(const std::string& key, std::initializer_list<std::string_view> values);
  void expect_object_or_null(const std::string& key);

  // Metadata "ARCHITECTURE.name".
  void set_integer(std::string_view name, int64_t value);
  void set_number(std::string_view name, double value);
  void set_flag(std::string_view name, bool value);
  void set_text(std::string_view name, std::string_view value);
  void set_flags(std::string_view name, const std::vector<bool>& values);

  // Tensors: GGUF's name, the checkpoint's name.
  [[nodiscard]] bool has_tensor(const std::string& hf_name) const { return checkpoint_->find(hf_name) != nullptr; }
  /// Its shape, outermost size first; empty if it is not there.
  [[nodiscard]] std::vector<int64_t> shape_of(const std::string& hf_name) const;
  void tensor(const std::string& name, const std::string& hf_name, TensorMaking making = {});
  void optional_tensor(const std::string& name, const std::string& hf_name, TensorMaking making = {});
  /// Both `stem`.weight and, where the checkpoint has it, `stem`.bias.
  void linear(const std::string& stem, const std::string& hf_stem, const TensorMaking& making = {});
  /// Matrices of one shape as one tensor with a dimension more (experts).
  void stack(const std::string& name, const std::vector<std::string>& hf_names);
  /// A vector that is in no file.
  void vector(const std::string& name, std::vector<float> values);
  /// A tensor that is not needed.
  void ignore(const std::string& hf_name) { used_.insert(hf_name); }

  [[nodiscard]] bool ok() const { return status_.ok(); }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  /// About a key of config.json.
  void fail_in_key(const std::string& key, std::string_view what);

  /// The first error; or that the checkpoint has tensors that the mapping did not name, so that nothing of a model is
  /// left out silently.
  [[nodiscard]] Status finish();
  [[nodiscard]] GgufWriter& writer() { return writer_; }
  [[nodiscard]] std::vector<TensorRecipe> take_recipes() { return std::move(recipes_); }
  /// Of the metadata so far: a GGUF file without tensors.
  [[nodiscard]] std::string take_metadata();

 private:
  [[nodiscard]] const JsonLeaf* find(const std::string& key) const;
  [[nodiscard]] const SafetensorsTensor* take(const std::string& hf_name);
  /// Embedding and head must be as config.json says.
  void check_ends();

  std::string architecture_;
  std::string config_path_;
  const std::map<std::string, JsonLeaf>* config_;
  const SafetensorsCheckpoint* checkpoint_;
  std::string metadata_;
  GgufWriter writer_;
  std::vector<TensorRecipe> recipes_;
  std::unordered_set<std::string> used_;
  Status status_;
};

}  // namespace bass
