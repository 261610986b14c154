#include "model/tensor_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "tensor/quantise.h"

namespace bass {
namespace {

bool is_float(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

size_t bytes_of_row(DType type, int64_t row_len) {
  const DTypeInfo& info = dtype_info(type);
  return static_cast<size_t>(row_len / info.block_len) * static_cast<size_t>(info.block_bytes);
}

/// What stays in full precision: small, and errors in it touch everything.
bool keeps_precision(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames{"position_embd", "ffn_gate_inp", "token_types"};
  return std::ranges::any_of(kNames, [&](std::string_view part) { return name.find(part) != name.npos; });
}

/// One row of the result at a time.
class RowMaker {
 public:
  explicit RowMaker(const TensorRecipe& recipe) : recipe_(recipe), floats_(static_cast<size_t>(recipe.row_len)) {}

  /// False: a number does not fit.
  bool make(int64_t row, std::byte* out) {
    const bool is_copy =
        !recipe_.sources.empty() && recipe_.addend == 0.0F && recipe_.sources.front().type == recipe_.type;
    if (is_copy && recipe_.is_transposed) return copy_column(row, out);
    if (is_copy) {
      std::memcpy(out, source_row(row), recipe_.row_bytes());
      return true;
    }
    read(row);
    if (recipe_.type != DType::kF32) {
      return quantise_row(recipe_.type, floats_.data(), static_cast<int>(floats_.size()), out);
    }
    std::memcpy(out, floats_.data(), floats_.size() * sizeof(float));
    return true;
  }

 private:
  const std::byte* source_row(int64_t row) const {
    int64_t at = recipe_.rows.empty() ? row : recipe_.rows[static_cast<size_t>(row)];
    size_t k = 0;
    for (; at >= recipe_.sources[k].n_rows; ++k) at -= recipe_.sources[k].n_rows;
    const SourceMatrix& source = recipe_.sources[k];
    return source.data.data() + static_cast<size_t>(at) * bytes_of_row(source.type, source.row_len);
  }

  void read(int64_t row) {
    const auto len = static_cast<int64_t>(floats_.size());
    if (recipe_.sources.empty()) {
      std::copy_n(recipe_.values.begin() + row * len, len, floats_.begin());
    } else if (recipe_.is_transposed) {
      read_column(row);
    } else {
      dequantise_row(recipe_.sources.front().type, source_row(row), static_cast<int>(len), floats_.data());
    }
    if (recipe_.addend != 0.0F) {
      for (float& value : floats_) value += recipe_.addend;
    }
  }

  bool copy_column(int64_t column, std::byte* out) const {
    const SourceMatrix& source = recipe_.sources.front();
    const auto element_bytes = static_cast<size_t>(dtype_info(source.type).block_bytes);
    const std::byte* at = source.data.data() + static_cast<size_t>(column) * element_bytes;
    for (int64_t i = 0; i < recipe_.row_len; ++i, out += element_bytes) {
      std::memcpy(out, at, element_bytes);
      at += bytes_of_row(source.type, source.row_len);
    }
    return true;
  }

  void read_column(int64_t column) {
    const SourceMatrix& source = recipe_.sources.front();
    const auto element_bytes = static_cast<size_t>(dtype_info(source.type).block_bytes);
    const std::byte* at = source.data.data() + static_cast<size_t>(column) * element_bytes;
    for (float& value : floats_) {
      dequantise_row(source.type, at, 1, &value);
      at += bytes_of_row(source.type, source.row_len);
    }
  }

  const TensorRecipe& recipe_;
  std::vector<float> floats_;  // [row_len]
};

}  // namespace

int64_t TensorRecipe::n_rows() const {
  int64_t n_elements = 1;
  for (const int64_t size : shape) n_elements *= size;
  return n_elements / row_len;
}

size_t TensorRecipe::row_bytes() const { return bytes_of_row(type, row_len); }

bool TensorRecipe::is_view() const {
  return sources.size() == 1 && rows.empty() && !is_transposed && addend == 0.0F && sources.front().type == type;
}

size_t quantise_recipes(DType type, std::span<TensorRecipe> recipes) {
  size_t n_made = 0;
  for (TensorRecipe& recipe : recipes) {
    const bool has_blocks = recipe.row_len % dtype_info(type).block_len == 0;
    if (recipe.shape.size() > 1 && is_float(recipe.type) && has_blocks && !keeps_precision(recipe.name)) {
      recipe.type = type;
      ++n_made;
    }
  }
  return n_made;
}

Status make_tensor(const TensorRecipe& recipe, ThreadTeam* team, std::byte* out) {
  std::atomic<bool> fits{true};
  const size_t row_bytes = recipe.row_bytes();
  team->run([&](const TeamContext& context) {
    RowMaker maker(recipe);
    const WorkRange mine = context.share(static_cast<int>(recipe.n_rows()));
    for (int row = mine.begin; row < mine.end; ++row) {
      if (!maker.make(row, out + static_cast<size_t>(row) * row_bytes)) fits = false;
    }
  });
  if (fits) return ok_status();
  return invalid_file(fmt::format("{}: holds a number that is not finite, or too large for {}", recipe.origin,
                                  dtype_info(recipe.type).name));
}

}  // namespace bass
