#include "executor/cuda/weight_arena.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/check.h"
#include "base/mapped_file.h"
#include "kernels/cuda/matmul/pack_device.h"
#include "tensor/quantise.h"

namespace bass::cuda {
namespace {

constexpr size_t kAlignment = 256;

/// The type that a part of a head is kept in (executor/cpu/head_rows.h): what has 4 bits stays as it is.
DType part_type(const MatrixRef& ref, const HeadPart* part) {
  if (part == nullptr || !part->type || ref.n_in % kGroupLen != 0) return ref.type;
  const int bits = quant_format(ref.type).bits;
  return bits > 0 && bits <= 4 ? ref.type : *part->type;
}

int n_channels(const MatrixRef& ref, const HeadPart* part) {
  return part == nullptr ? ref.n_out : static_cast<int>(part->ids.size());
}

/// A row of a matrix in the type that it is packed in. One for each thread.
class RowReader {
 public:
  RowReader(const MatrixRef& ref, const HeadPart* part, DType type) : ref_(ref), part_(part), type_(type) {
    if (type == ref.type) return;
    const DTypeInfo& info = dtype_info(type);
    floats_.resize(static_cast<size_t>(ref.n_in));
    row_.resize(static_cast<size_t>(ref.n_in / info.block_len) * static_cast<size_t>(info.block_bytes));
  }
  /// is_lossless becomes false where a number does not fit.
  const std::byte* read(int channel, std::atomic<bool>* fits) {
    const int idx = part_ == nullptr ? channel : part_->ids[static_cast<size_t>(channel)];
    const std::byte* row = ref_.data.data() + static_cast<size_t>(ref_.order.file_row(idx)) * ref_.row_bytes();
    if (type_ == ref_.type) return row;
    dequantise_row(ref_.type, row, ref_.n_in, floats_.data());
    if (!quantise_row(type_, floats_.data(), ref_.n_in, row_.data())) *fits = false;
    return row_.data();
  }

 private:
  const MatrixRef& ref_;
  const HeadPart* part_;
  DType type_;
  std::vector<float> floats_;
  std::vector<std::byte> row_;
};

/// As TokenQuants, of a channel's weights. Returns the scale.
float to_library_bytes(std::span<const float> row, LibraryNumbers numbers, uint8_t* bytes) {
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  const GroupScale scale = byte_scale(largest, numbers);
  std::transform(row.begin(), row.end(), bytes, [&](float x) { return library_byte(x * scale.inverse, numbers); });
  return scale.scale;
}

}  // namespace

bool WeightArena::open() {
  memory_ = DeviceBuffer(device_, n_used_);
  is_open_ = true;
  n_used_ = 0;
  return memory_.ok();
}

std::byte* WeightArena::room(size_t n_bytes) {
  std::byte* place = is_open_ ? memory_.data() + n_used_ : nullptr;
  n_used_ += (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
  BASS_CHECK(!is_open_ || n_used_ <= memory_.n_bytes());
  return place;
}

const float* WeightArena::floats(std::span<const float> values) {
  if (values.empty()) return nullptr;
  std::byte* place = room(values.size_bytes());
  if (is_open_) upload(place, values.data(), values.size_bytes());
  return reinterpret_cast<const float*>(place);
}

const DeviceMatrix* WeightArena::matrices(std::span<const DeviceMatrix> values) {
  std::byte* place = room(values.size_bytes());
  if (is_open_) upload(place, values.data(), values.size_bytes());
  return reinterpret_cast<const DeviceMatrix*>(place);
}

DeviceMatrix WeightArena::matrix(const MatrixRef& ref) { return tiles(ref, nullptr); }

DeviceMatrix WeightArena::product(const MatrixRef& ref, const HeadPart* part) {
  return library_ != LibraryNumbers::kNone ? library_matrix(ref, part) : tiles(ref, part);
}

DeviceMatrix WeightArena::tiles(const MatrixRef& ref, const HeadPart* part) {
  if (ref.n_out == 0) return {};
  const DType type = part_type(ref, part);
  DeviceMatrix matrix = device_matrix_shape(type, n_channels(ref, part), ref.n_in);
  const DeviceMatrixLayout layout = device_matrix_layout(matrix);
  std::byte* place = room(layout.end);
  matrix.bias = bias(ref, part);
  if (!is_open_) return matrix;
  packed_.assign(layout.end, std::byte{0});
  std::atomic<bool> fits{true};
  team_->run([&](const TeamContext& context) {
    RowReader rows(ref, part, type);
    const DeviceMatrixSource source{type, [&](int channel) { return rows.read(channel, &fits); }};
    pack_device_tiles(matrix, layout, source, context.share(matrix.n_tiles()), packed_.data());
  });
  note_misfit(fits);
  upload(place, packed_.data(), packed_.size());
  place_device_matrix(layout, place, &matrix);
  return matrix;
}

DeviceMatrix WeightArena::library_matrix(const MatrixRef& ref, const HeadPart* part) {
  if (ref.n_out == 0) return {};
  DeviceMatrix matrix;
  matrix.library = library_;
  matrix.n_out = n_channels(ref, part);
  matrix.n_in = ref.n_in;
  const auto n_rows = static_cast<size_t>(library_padded(matrix.n_out, library_));
  const size_t numbers_bytes = n_rows * static_cast<size_t>(matrix.n_in) * library_number_bytes(library_);
  const size_t scales_bytes = has_byte_numbers(library_) ? n_rows * sizeof(float) : 0;
  std::byte* place = room(numbers_bytes);
  std::byte* scales_place = room(scales_bytes);
  matrix.quants = place;
  if (scales_bytes > 0) matrix.channel_scales = reinterpret_cast<const float*>(scales_place);
  matrix.bias = bias(ref, part);
  if (!is_open_) return matrix;
  packed_.assign(numbers_bytes, std::byte{0});
  std::vector<float> scales(scales_bytes / sizeof(float));
  pack_library_rows(ref, part, matrix.n_out, packed_.data(), scales.data());
  upload(place, packed_.data(), numbers_bytes);
  if (scales_bytes > 0) upload(scales_place, scales.data(), scales_bytes);
  return matrix;
}

void WeightArena::pack_library_rows(const MatrixRef& ref, const HeadPart* part, int n_channels, std::byte* numbers,
                                    float* scales) {
  std::atomic<bool> fits{true};
  const DType type = part_type(ref, part);
  team_->run([&](const TeamContext& context) {
    RowReader rows(ref, part, type);
    std::vector<float> row(static_cast<size_t>(ref.n_in));
    const WorkRange mine = context.share(n_channels);
    for (int channel = mine.begin; channel < mine.end; ++channel) {
      dequantise_row(type, rows.read(channel, &fits), ref.n_in, row.data());
      const size_t begin =
          static_cast<size_t>(channel) * static_cast<size_t>(ref.n_in) * library_number_bytes(library_);
      if (has_byte_numbers(library_)) {
        scales[channel] = to_library_bytes(row, library_, reinterpret_cast<uint8_t*>(numbers + begin));
      } else {
        std::transform(row.begin(), row.end(), reinterpret_cast<uint16_t*>(numbers + begin), to_bf16);
      }
    }
  });
  note_misfit(fits);
}

const float* WeightArena::bias(const MatrixRef& ref, const HeadPart* part) {
  if (part == nullptr || ref.bias.empty()) return floats(ref.bias);
  std::vector<float> chosen;
  for (const int32_t id : part->ids) chosen.push_back(ref.bias[static_cast<size_t>(id)]);
  return floats(chosen);
}

void WeightArena::note_misfit(bool fits) {
  if (fits || !status_.ok()) return;
  status_ = invalid_file("the main model's head holds numbers that a draft's 4-bit rows of it cannot hold");
}

void WeightArena::upload(std::byte* to, const void* from, size_t n_bytes) {
  device_->upload(to, from, n_bytes);
  Status status = device_->synchronize();  // `from` is the next matrix's too
  if (status_.ok()) status_ = std::move(status);
}

}  // namespace bass::cuda
