#include "executor/cuda/weight_arena.h"

#include <atomic>

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

DeviceMatrix WeightArena::matrix(const MatrixRef& ref, const HeadPart* part) {
  if (ref.n_out == 0) return {};
  const DType type = part_type(ref, part);
  DeviceMatrix matrix =
      device_matrix_shape(type, part == nullptr ? ref.n_out : static_cast<int>(part->ids.size()), ref.n_in);
  const DeviceMatrixLayout layout = device_matrix_layout(matrix);
  std::byte* place = room(layout.end);
  std::vector<float> bias = ref.bias;
  if (part != nullptr && !ref.bias.empty()) {
    bias.clear();
    for (const int32_t id : part->ids) bias.push_back(ref.bias[static_cast<size_t>(id)]);
  }
  matrix.bias = floats(bias);
  if (!is_open_) return matrix;
  packed_.assign(layout.end, std::byte{0});
  std::atomic<bool> fits{true};
  team_->run([&](const TeamContext& context) {
    RowReader rows(ref, part, type);
    const DeviceMatrixSource source{type, [&](int channel) { return rows.read(channel, &fits); }};
    pack_device_tiles(matrix, layout, source, context.share(matrix.n_tiles()), packed_.data());
  });
  if (!fits && status_.ok()) {
    status_ = invalid_file("the main model's head holds numbers that a draft's 4-bit rows of it cannot hold");
  }
  upload(place, packed_.data(), packed_.size());
  place_device_matrix(layout, place, &matrix);
  return matrix;
}

void WeightArena::upload(std::byte* to, const void* from, size_t n_bytes) {
  device_->upload(to, from, n_bytes);
  Status status = device_->synchronize();  // `from` is the next matrix's too
  if (status_.ok()) status_ = std::move(status);
}

}  // namespace bass::cuda
