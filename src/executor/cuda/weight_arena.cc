#include "executor/cuda/weight_arena.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/mapped_file.h"
#include "kernels/cuda/matmul/pack_device.h"
#include "kernels/cuda/matmul/skinny_part.h"
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

int n_channels(std::span<const MatrixRef* const> refs, const HeadPart* part) {
  if (part != nullptr) return static_cast<int>(part->ids.size());
  return std::accumulate(refs.begin(), refs.end(), 0, [](int n, const MatrixRef* ref) { return n + ref->n_out; });
}

/// A row of matrices that become one, in the type that they are packed in. One for each thread.
class RowReader {
 public:
  RowReader(std::span<const MatrixRef* const> refs, const HeadPart* part, DType type)
      : refs_(refs), part_(part), type_(type) {
    const MatrixRef& ref = *refs.front();
    if (type == ref.type) return;
    const DTypeInfo& info = dtype_info(type);
    floats_.resize(static_cast<size_t>(ref.n_in));
    row_.resize(static_cast<size_t>(ref.n_in / info.block_len) * static_cast<size_t>(info.block_bytes));
  }
  /// fits becomes false where a number does not fit.
  const std::byte* read(int channel, std::atomic<bool>* fits) {
    int idx = part_ == nullptr ? channel : part_->ids[static_cast<size_t>(channel)];
    size_t place = 0;
    while (idx >= refs_[place]->n_out) idx -= refs_[place++]->n_out;
    const MatrixRef& ref = *refs_[place];
    const std::byte* row = ref.data.data() + static_cast<size_t>(ref.order.file_row(idx)) * ref.row_bytes();
    if (type_ == ref.type) return row;
    dequantise_row(ref.type, row, ref.n_in, floats_.data());
    if (!quantise_row(type_, floats_.data(), ref.n_in, row_.data())) *fits = false;
    return row_.data();
  }

 private:
  std::span<const MatrixRef* const> refs_;
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

DeviceMatrix WeightArena::matrix(const MatrixRef& ref) { return tiles(std::array{&ref}, nullptr); }

DeviceMatrix WeightArena::product(const MatrixRef& ref, const HeadPart* part) {
  return any_product(std::array{&ref}, part);
}

bool WeightArena::can_join(std::span<const MatrixRef* const> refs) {
  static_assert(kChannels % kLibraryAlignment == 0);
  return std::all_of(refs.begin(), refs.end(), [&](const MatrixRef* ref) {
    return ref->type == refs.front()->type && ref->n_in == refs.front()->n_in && ref->n_out % kChannels == 0 &&
           ref->bias.empty() == refs.front()->bias.empty();
  });
}

DeviceMatrix WeightArena::joint_product(std::span<const MatrixRef* const> refs) { return any_product(refs, nullptr); }

DeviceMatrix WeightArena::any_product(Refs refs, const HeadPart* part) {
  return library_ != LibraryNumbers::kNone ? library_matrix(refs, part) : tiles(refs, part);
}

DeviceMatrix WeightArena::tiles(Refs refs, const HeadPart* part) {
  const MatrixRef& ref = *refs.front();
  if (ref.n_out == 0) return {};
  const DType type = part_type(ref, part);
  DeviceMatrix matrix = device_matrix_shape(type, n_channels(refs, part), ref.n_in);
  const DeviceMatrixLayout layout = device_matrix_layout(matrix);
  std::byte* place = room(layout.end);
  matrix.bias = bias(refs, part);
  if (!is_open_) return matrix;
  packed_.assign(layout.end, std::byte{0});
  std::atomic<bool> fits{true};
  team_->run([&](const TeamContext& context) {
    RowReader rows(refs, part, type);
    const DeviceMatrixSource source{type, [&](int channel) { return rows.read(channel, &fits); }};
    pack_device_tiles(matrix, layout, source, context.share(matrix.n_tiles()), packed_.data());
  });
  note_misfit(fits);
  upload(place, packed_.data(), packed_.size());
  place_device_matrix(layout, place, &matrix);
  return matrix;
}

DeviceMatrix WeightArena::library_matrix(Refs refs, const HeadPart* part) {
  const MatrixRef& ref = *refs.front();
  if (ref.n_out == 0) return {};
  DeviceMatrix matrix;
  matrix.library = library_;
  matrix.n_out = n_channels(refs, part);
  matrix.n_in = ref.n_in;
  if (fits_skinny_product(library_, ref.n_in))
    std::fill_n(matrix.skinny, kSkinnySizes, SkinnyKind::kOneTile);  // a guess
  const auto n_rows = static_cast<size_t>(library_padded(matrix.n_out, library_));
  const size_t numbers_bytes = n_rows * static_cast<size_t>(matrix.n_in) * library_number_bytes(library_);
  const size_t scales_bytes = has_byte_numbers(library_) ? n_rows * sizeof(float) : 0;
  std::byte* place = room(numbers_bytes);
  std::byte* scales_place = room(scales_bytes);
  matrix.quants = place;
  if (scales_bytes > 0) matrix.channel_scales = reinterpret_cast<const float*>(scales_place);
  matrix.bias = bias(refs, part);
  if (!is_open_) return matrix;
  packed_.assign(numbers_bytes, std::byte{0});
  std::vector<float> scales(scales_bytes / sizeof(float));
  pack_library_rows(refs, part, matrix.n_out, packed_.data(), scales.data());
  upload(place, packed_.data(), numbers_bytes);
  if (scales_bytes > 0) upload(scales_place, scales.data(), scales_bytes);
  return matrix;
}

void WeightArena::pack_library_rows(Refs refs, const HeadPart* part, int n_channels, std::byte* numbers,
                                    float* scales) {
  const MatrixRef& ref = *refs.front();
  std::atomic<bool> fits{true};
  const DType type = part_type(ref, part);
  team_->run([&](const TeamContext& context) {
    RowReader rows(refs, part, type);
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

const float* WeightArena::bias(Refs refs, const HeadPart* part) {
  const std::vector<float>& first = refs.front()->bias;
  if (part == nullptr && refs.size() == 1) return floats(first);
  std::vector<float> chosen;
  if (part == nullptr) {
    for (const MatrixRef* ref : refs) chosen.insert(chosen.end(), ref->bias.begin(), ref->bias.end());
  } else if (!first.empty()) {
    for (const int32_t id : part->ids) chosen.push_back(first[static_cast<size_t>(id)]);
  }
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
