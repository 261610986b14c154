#include "model/hf_import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "io/gguf_format.h"

namespace bass {
namespace {

constexpr size_t kMaxDims = 4;

/// Buffers that checkpoints carry along: they follow from the configuration.
bool is_buffer(std::string_view name) {
  constexpr std::array<std::string_view, 7> kSuffixes{
      ".attn.causal_mask",     "rotary_emb.inv_freq",    ".attn.bias", ".attn.masked_bias", ".attention.bias",
      "attention.masked_bias", "embeddings.position_ids"};
  return std::ranges::any_of(kSuffixes, [&](std::string_view suffix) { return name.ends_with(suffix); });
}

/// [n, m, ...] as a matrix whose rows are the last dimension; a vector's rows are its elements.
SourceMatrix matrix_of(const SafetensorsTensor& tensor) {
  SourceMatrix matrix{*tensor.type->dtype, 1, 1, tensor.data};
  const size_t n_outer = tensor.shape.size() == 1 ? 1 : tensor.shape.size() - 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) (i < n_outer ? matrix.n_rows : matrix.row_len) *= tensor.shape[i];
  return matrix;
}

}  // namespace

HfImport::HfImport(std::string architecture, std::string config_path, const std::map<std::string, JsonLeaf>* config,
                   const SafetensorsCheckpoint* checkpoint)
    : architecture_(std::move(architecture)),
      config_path_(std::move(config_path)),
      config_(config),
      checkpoint_(checkpoint),
      writer_([this](std::span<const std::byte> bytes) {
        metadata_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return ok_status();
      }) {
  writer_.add_string("general.architecture", architecture_);
}

void HfImport::fail_in_key(const std::string& key, std::string_view what) {
  fail(invalid_file(fmt::format("{}: {} (key '{}')", config_path_, what, key)));
}

const JsonLeaf* HfImport::find(const std::string& key) const {
  const auto found = config_->find(key);
  if (found == config_->end() || std::holds_alternative<std::nullptr_t>(found->second)) return nullptr;
  return &found->second;
}

bool HfImport::has(const std::string& key) const { return find(key) != nullptr; }

bool HfImport::is_null(const std::string& key) const { return config_->contains(key) && !has(key); }

std::string HfImport::first_of(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (has(std::string(key))) return std::string(key);
  }
  return "";
}

int64_t HfImport::integer(const std::string& key) {
  if (has(key)) return integer_or(key, 0);
  fail_in_key(key, "an entry is missing");
  return 0;
}

int64_t HfImport::integer_or(const std::string& key, int64_t fallback) {
  const JsonLeaf* leaf = find(key);
  if (leaf == nullptr) return fallback;
  const auto* number = std::get_if<uint64_t>(leaf);
  if (number != nullptr && *number <= std::numeric_limits<uint32_t>::max()) return static_cast<int64_t>(*number);
  fail_in_key(key, fmt::format("need a whole number from 0 to 4294967295, not {}",
                               number != nullptr ? std::to_string(*number) : std::string(json_kind(*leaf))));
  return fallback;
}

double HfImport::number(const std::string& key) {
  if (has(key)) return number_or(key, 0);
  fail_in_key(key, "an entry is missing");
  return 0;
}

double HfImport::number_or(const std::string& key, double fallback) {
  const JsonLeaf* leaf = find(key);
  if (leaf == nullptr) return fallback;
  if (const auto* value = std::get_if<double>(leaf)) return *value;
  if (const auto* value = std::get_if<uint64_t>(leaf)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<int64_t>(leaf)) return static_cast<double>(*value);
  fail_in_key(key, fmt::format("need a number, not {}", json_kind(*leaf)));
  return fallback;
}

bool HfImport::flag_or(const std::string& key, bool fallback) {
  const JsonLeaf* leaf = find(key);
  if (leaf == nullptr) return fallback;
  if (const auto* flag = std::get_if<bool>(leaf)) return *flag;
  fail_in_key(key, fmt::format("need true or false, not {}", json_kind(*leaf)));
  return fallback;
}

std::string HfImport::text_or(const std::string& key, const std::string& fallback) {
  const JsonLeaf* leaf = find(key);
  if (leaf == nullptr) return fallback;
  if (const auto* text = std::get_if<std::string>(leaf)) return *text;
  fail_in_key(key, fmt::format("need a string, not {}", json_kind(*leaf)));
  return fallback;
}

void HfImport::expect_flag(const std::string& key, bool value) {
  if (flag_or(key, value) != value) fail_in_key(key, fmt::format("is {}, which BASS does not compute", !value));
}

void HfImport::expect_text(const std::string& key, std::initializer_list<std::string_view> values) {
  const std::string text = text_or(key, std::string(*values.begin()));
  if (std::ranges::count(values, text) > 0) return;
  fail_in_key(key, fmt::format("is {}, which BASS does not compute here", gguf_format::in_quotes(text)));
}

void HfImport::expect_object_or_null(const std::string& key) {
  const JsonLeaf* leaf = find(key);  // of an object with entries only those are there
  const auto* empty = leaf != nullptr ? std::get_if<JsonEmpty>(leaf) : nullptr;
  const bool is_array = config_->contains(key + ".0");
  if (!is_array && (leaf == nullptr || (empty != nullptr && empty->is_object))) return;
  fail_in_key(key, fmt::format("need an object or null, not {}", is_array ? "an array" : json_kind(*leaf)));
}

void HfImport::set_integer(std::string_view name, int64_t value) {
  writer_.add_u32(fmt::format("{}.{}", architecture_, name), static_cast<uint32_t>(value));
}

void HfImport::set_number(std::string_view name, double value) {
  writer_.add_f32(fmt::format("{}.{}", architecture_, name), static_cast<float>(value));
}

void HfImport::set_flag(std::string_view name, bool value) {
  writer_.add_bool(fmt::format("{}.{}", architecture_, name), value);
}

void HfImport::set_text(std::string_view name, std::string_view value) {
  writer_.add_string(fmt::format("{}.{}", architecture_, name), value);
}

void HfImport::set_flags(std::string_view name, const std::vector<bool>& values) {
  std::vector<std::byte> bytes;
  for (const bool value : values) bytes.push_back(static_cast<std::byte>(value));
  writer_.add_value(fmt::format("{}.{}", architecture_, name), GgufArray{GgufType::kBool, bytes.size(), bytes});
}

std::vector<int64_t> HfImport::shape_of(const std::string& hf_name) const {
  const SafetensorsTensor* tensor = checkpoint_->find(hf_name);
  return tensor == nullptr ? std::vector<int64_t>{} : tensor->shape;
}

/// A tensor that is needed and has numbers; nullptr after an error.
const SafetensorsTensor* HfImport::take(const std::string& hf_name) {
  if (!status_.ok()) return nullptr;
  const SafetensorsTensor* tensor = checkpoint_->find(hf_name);
  if (tensor == nullptr) {
    fail(invalid_file(fmt::format("{}: tensor '{}' is missing", config_path_, hf_name)));
    return nullptr;
  }
  used_.insert(hf_name);
  const auto is_wrong_size = [](int64_t size) { return size == 0; };
  if (!tensor->type->dtype.has_value()) {
    fail(invalid_file(fmt::format("{}: tensor '{}' has type {}, need F32, F16 or BF16", checkpoint_->path_of(*tensor),
                                  hf_name, tensor->type->name)));
  } else if (tensor->shape.empty() || tensor->shape.size() > kMaxDims ||
             std::ranges::any_of(tensor->shape, is_wrong_size)) {
    fail(invalid_file(fmt::format("{}: tensor '{}' has shape [{}], need 1 to {} sizes above 0",
                                  checkpoint_->path_of(*tensor), hf_name, fmt::join(tensor->shape, ", "), kMaxDims)));
  }
  return status_.ok() ? tensor : nullptr;
}

void HfImport::tensor(const std::string& name, const std::string& hf_name, TensorMaking making) {
  const SafetensorsTensor* tensor = take(hf_name);
  if (tensor == nullptr) return;
  TensorRecipe recipe;
  recipe.name = name;
  recipe.origin = fmt::format("{}: tensor '{}'", checkpoint_->path_of(*tensor), hf_name);
  recipe.sources = {matrix_of(*tensor)};
  recipe.shape.assign(tensor->shape.rbegin(), tensor->shape.rend());
  const int64_t n_rows = recipe.sources.front().n_rows;
  const auto out_of_range = [&](int32_t row) { return row < 0 || row >= n_rows; };
  const bool has_no_such_rows =
      !making.rows.empty() && (tensor->shape.size() > 2 || std::ranges::any_of(making.rows, out_of_range));
  if (has_no_such_rows || (making.is_transposed && tensor->shape.size() != 2)) {
    return fail(invalid_file(fmt::format("{} has shape [{}], which does not fit what config.json says", recipe.origin,
                                         fmt::join(tensor->shape, ", "))));
  }
  if (!making.shape.empty()) {
    recipe.shape = std::move(making.shape);
  } else if (!making.rows.empty()) {
    recipe.shape.back() = static_cast<int64_t>(making.rows.size());
  }
  if (making.is_transposed) std::swap(recipe.shape[0], recipe.shape[1]);
  const bool must_be_float = recipe.shape.size() == 1 || making.addend != 0.0F;
  recipe.type = must_be_float ? DType::kF32 : recipe.sources.front().type;
  recipe.rows = std::move(making.rows);
  recipe.is_transposed = making.is_transposed;
  recipe.addend = making.addend;
  recipe.row_len = recipe.shape.front();
  if (recipe.shape.size() == 1) {
    SourceMatrix& source = recipe.sources.front();
    if (recipe.rows.empty()) std::swap(source.n_rows, source.row_len);  // one row as long as the vector
    recipe.row_len = source.row_len;
  }
  recipes_.push_back(std::move(recipe));
}

void HfImport::optional_tensor(const std::string& name, const std::string& hf_name, TensorMaking making) {
  if (has_tensor(hf_name)) tensor(name, hf_name, std::move(making));
}

void HfImport::linear(const std::string& stem, const std::string& hf_stem, const TensorMaking& making) {
  tensor(stem + ".weight", hf_stem + ".weight", making);
  TensorMaking for_bias = making;
  for_bias.is_transposed = false;
  optional_tensor(stem + ".bias", hf_stem + ".bias", std::move(for_bias));
}

void HfImport::stack(const std::string& name, const std::vector<std::string>& hf_names) {
  TensorRecipe recipe;
  recipe.name = name;
  for (const std::string& hf_name : hf_names) {
    const SafetensorsTensor* tensor = take(hf_name);
    if (tensor == nullptr) return;
    recipe.sources.push_back(matrix_of(*tensor));
    const SourceMatrix& first = recipe.sources.front();
    const SourceMatrix& last = recipe.sources.back();
    if (first.n_rows != last.n_rows || first.row_len != last.row_len || first.type != last.type) {
      return fail(invalid_file(fmt::format("{}: tensor '{}' differs in shape or type from '{}'",
                                           checkpoint_->path_of(*tensor), hf_name, hf_names.front())));
    }
    if (recipe.origin.empty()) recipe.origin = fmt::format("{}: tensor '{}'", checkpoint_->path_of(*tensor), hf_name);
  }
  if (recipe.sources.empty()) return;
  const SourceMatrix& first = recipe.sources.front();
  recipe.shape = {first.row_len, first.n_rows, static_cast<int64_t>(hf_names.size())};
  recipe.row_len = first.row_len;
  recipe.type = first.type;
  recipes_.push_back(std::move(recipe));
}

void HfImport::vector(const std::string& name, std::vector<float> values) {
  TensorRecipe recipe;
  recipe.name = name;
  recipe.origin = config_path_;
  recipe.shape = {static_cast<int64_t>(values.size())};
  recipe.row_len = recipe.shape.front();
  recipe.values = std::move(values);
  recipes_.push_back(std::move(recipe));
}

Status HfImport::finish() {
  if (!status_.ok()) return status_;
  for (const SafetensorsTensor& tensor : checkpoint_->tensors()) {
    if (used_.contains(tensor.name) || is_buffer(tensor.name)) continue;
    return invalid_file(fmt::format("{}: tensor {} is none of the {} that BASS computes", checkpoint_->path_of(tensor),
                                    gguf_format::in_quotes(tensor.name), architecture_));
  }
  constexpr int64_t kMaxLen = std::numeric_limits<int>::max();
  for (const TensorRecipe& recipe : recipes_) {
    if (recipe.n_rows() > kMaxLen || recipe.row_len > kMaxLen) {
      return invalid_file(fmt::format("{} is impossibly large", recipe.origin));
    }
  }
  check_ends();
  return status_;
}

void HfImport::check_ends() {
  bool has_head = false;
  for (const TensorRecipe& recipe : recipes_) {
    has_head |= recipe.name == "output.weight";
    if (recipe.name != "token_embd.weight" || integer_or("vocab_size", recipe.n_rows()) == recipe.n_rows()) continue;
    fail_in_key("vocab_size", fmt::format("is not {}, the number of the embedding's rows", recipe.n_rows()));
  }
  if (!has_head && !flag_or("tie_word_embeddings", true)) {
    fail_in_key("tie_word_embeddings", "is false, but the checkpoint has no head");
  }
}

std::string HfImport::take_metadata() {
  const Status status = writer_.begin();
  BASS_CHECK(status.ok());
  return std::move(metadata_);
}

}  // namespace bass
