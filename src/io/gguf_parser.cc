// Walks the header of a GGUF file:
//   magic, version, n_tensors, n_metadata, metadata entries, tensor descriptions, padding, tensor data.
// Every length and count is compared with the bytes that are left before anything is done with it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_set>

#include "base/check.h"
#include "io/gguf.h"
#include "io/gguf_format.h"

namespace bass {
namespace {

using gguf_format::in_quotes;
using gguf_format::load;

constexpr size_t kMaxKeyBytes = 65535;      // the format's limit
constexpr size_t kMaxTensorNameBytes = 63;  // that of other readers
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint32_t kMaxDims = 4;
// The least that an entry can take: the name's length, the type, a value of one byte.
constexpr uint64_t kMinMetadataBytes = 8 + 4 + 1;
// The name's length, number of dimensions, one dimension, type, offset.
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

struct ForeignType {
  uint32_t number;
  std::string_view name;
};

/// Types that other programs write and BASS does not read, for messages.
constexpr ForeignType kForeignTypes[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},     {26, "I32"},
    {27, "I64"},   {28, "F64"},   {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"},
};

/// What a file that does not begin with "GGUF" seems to be, as the end of a sentence; empty if unknown.
std::string_view foreign_file_hint(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  const bool is_pickle = text.size() > 1 && text[0] == '\x80' && text[1] >= '\x02' && text[1] <= '\x05';
  if (is_pickle || text.starts_with("PK\x03\x04")) {
    return "; it looks like a PyTorch checkpoint (a Python program's pickle, which can run any code) or a zip archive: "
           "write the model as safetensors with transformers' save_pretrained";
  }
  if (text.size() > 9 && text[8] == '{') return "; it looks like a safetensors file, name it x.safetensors";
  if (text.starts_with("FUGG")) return "; it looks like a big-endian GGUF file";
  if (text.starts_with("version https://git-lfs")) return "; it is a Git LFS pointer, fetch the file itself";
  if (text.starts_with("<")) return "; it looks like a web page, download it again";
  for (const std::string_view old : {"tjgg", "lmgg", "fmgg", "algg"}) {
    if (text.starts_with(old)) return "; it is of a format older than GGUF, convert it again";
  }
  return "";
}

/// A tensor's description before its place is checked.
struct TensorPlace {
  uint64_t offset = 0;  ///< from the start of the data
  uint64_t n_bytes = 0;
  uint64_t described_at = 0;  ///< byte of the file, for messages
};

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Result<GgufContents> parse() {
    BASS_RETURN_IF_ERROR(parse_magic_and_version());
    uint64_t n_tensors = 0;
    uint64_t n_metadata = 0;
    BASS_RETURN_IF_ERROR(parse_count("tensors", kMinTensorBytes, n_tensors));
    BASS_RETURN_IF_ERROR(parse_count("metadata entries", kMinMetadataBytes, n_metadata));
    for (uint64_t i = 0; i < n_metadata; ++i) BASS_RETURN_IF_ERROR(parse_metadata_entry());
    BASS_RETURN_IF_ERROR(find_alignment());
    for (uint64_t i = 0; i < n_tensors; ++i) BASS_RETURN_IF_ERROR(parse_tensor());
    BASS_RETURN_IF_ERROR(place_tensors());
    return std::move(contents_);
  }

 private:
  [[nodiscard]] Status error_at(uint64_t at, std::string_view what) const {
    return invalid_file(fmt::format("{}: {} (at byte {})", path_, what, at));
  }
  [[nodiscard]] Status error_in_key(std::string_view key, std::string_view what) const {
    return invalid_file(fmt::format("{}: {} (key {})", path_, what, in_quotes(key)));
  }
  [[nodiscard]] uint64_t n_left() const { return bytes_.size() - at_; }

  template <class T>
  [[nodiscard]] Status read(std::string_view what, T& value) {
    if (n_left() < sizeof(T)) return error_at(at_, fmt::format("the file ends within {}: it is truncated", what));
    value = load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return ok_status();
  }

  [[nodiscard]] Status read_string(std::string_view what, std::string_view& value) {
    const uint64_t begin = at_;
    uint64_t len = 0;
    BASS_RETURN_IF_ERROR(read(what, len));
    if (len > n_left()) {
      return error_at(begin, fmt::format("{} claims {} bytes, but only {} are left: the file is truncated or damaged",
                                         what, len, n_left()));
    }
    value = {reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<size_t>(len)};
    at_ += len;
    return ok_status();
  }

  Status parse_magic_and_version() {
    constexpr std::string_view kMagic = "GGUF";
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    if (!text.starts_with(kMagic)) {
      if (kMagic.starts_with(text)) return error_at(text.size(), "the file ends within its magic: it is truncated");
      return error_at(0, fmt::format("is no GGUF file{}", foreign_file_hint(bytes_)));
    }
    at_ = kMagic.size();
    BASS_RETURN_IF_ERROR(read("its version", contents_.version));
    const uint32_t version = contents_.version;
    if (version == 2 || version == 3) return ok_status();
    if (version != 0 && (version & 0xFFFFu) == 0) {
      return error_at(4, "is a big-endian GGUF file; BASS reads little-endian ones, convert it again");
    }
    return error_at(4, fmt::format("has GGUF version {}; BASS reads 2 and 3, convert it again", version));
  }

  Status parse_count(std::string_view what, uint64_t min_bytes_each, uint64_t& count) {
    const uint64_t begin = at_;
    BASS_RETURN_IF_ERROR(read(fmt::format("its number of {}", what), count));
    if (count <= n_left() / min_bytes_each) return ok_status();
    return error_at(begin, fmt::format("claims {} {}, more than the {} bytes that follow can hold: the file is "
                                       "truncated or damaged",
                                       count, what, n_left()));
  }

  /// A key or a tensor's name: neither empty nor absurd, nor seen before.
  Status read_name(std::string_view what, size_t max_bytes, std::unordered_set<std::string_view>& seen,
                   std::string_view& name) {
    const uint64_t begin = at_;
    BASS_RETURN_IF_ERROR(read_string(what, name));
    if (name.empty()) return error_at(begin, fmt::format("{} is empty", what));
    if (name.size() > max_bytes) {
      return error_at(begin, fmt::format("{} has {} bytes, more than {}", what, name.size(), max_bytes));
    }
    if (!seen.insert(name).second) return error_at(begin, fmt::format("{} {} occurs twice", what, in_quotes(name)));
    return ok_status();
  }

  Status parse_metadata_entry() {
    std::string_view key;
    BASS_RETURN_IF_ERROR(read_name("a metadata key", kMaxKeyBytes, keys_, key));
    const uint64_t type_at = at_;
    uint32_t type_number = 0;
    BASS_RETURN_IF_ERROR(read("the type of a metadata value", type_number));
    const auto type = static_cast<GgufType>(type_number);
    GgufValue value;
    if (type == GgufType::kString) {
      std::string_view text;
      BASS_RETURN_IF_ERROR(read_string(fmt::format("the value of key {}", in_quotes(key)), text));
      value = text;
    } else if (type == GgufType::kArray) {
      GgufArray array;
      BASS_RETURN_IF_ERROR(parse_array(key, array));
      value = array;
    } else if (const size_t n_bytes = gguf_format::scalar_bytes(type); n_bytes > 0) {
      if (n_left() < n_bytes) {
        return error_at(at_, fmt::format("the file ends within the value of key {}: it is truncated", in_quotes(key)));
      }
      value = gguf_format::load_scalar(type, bytes_.data() + at_);
      at_ += n_bytes;
    } else {
      return error_at(type_at, fmt::format("key {} has the unknown value type {}", in_quotes(key), type_number));
    }
    contents_.metadata.emplace_back(key, value);
    return ok_status();
  }

  Status parse_array(std::string_view key, GgufArray& array) {
    const std::string what = fmt::format("the array of key {}", in_quotes(key));
    const uint64_t begin = at_;
    uint32_t type_number = 0;
    uint64_t count = 0;
    BASS_RETURN_IF_ERROR(read(what, type_number));
    BASS_RETURN_IF_ERROR(read(what, count));
    array.element_type = static_cast<GgufType>(type_number);
    if (array.element_type == GgufType::kArray) {
      return error_at(begin, fmt::format("{} holds arrays, which BASS does not read", what));
    }
    const bool is_string = array.element_type == GgufType::kString;
    const size_t min_bytes_each = is_string ? sizeof(uint64_t) : gguf_format::scalar_bytes(array.element_type);
    if (min_bytes_each == 0) {
      return error_at(begin, fmt::format("{} has the unknown element type {}", what, type_number));
    }
    if (count > n_left() / min_bytes_each) {
      return error_at(begin, fmt::format("{} claims {} elements, more than the {} bytes that follow can hold: the file "
                                         "is truncated or damaged",
                                         what, count, n_left()));
    }
    array.n_elements = static_cast<size_t>(count);
    const uint64_t data_at = at_;
    if (is_string) {
      std::string_view ignored;
      for (uint64_t i = 0; i < count; ++i) BASS_RETURN_IF_ERROR(read_string(what, ignored));
    } else {
      at_ += count * min_bytes_each;
    }
    array.bytes = bytes_.subspan(data_at, at_ - data_at);
    return ok_status();
  }

  Status find_alignment() {
    constexpr std::string_view kKey = "general.alignment";
    for (const auto& [key, value] : contents_.metadata) {
      if (key != kKey) continue;
      const auto* number = std::get_if<uint64_t>(&value);
      if (number == nullptr) return error_in_key(kKey, "the alignment is no unsigned integer");
      if (!std::has_single_bit(*number) || *number < kMinAlignment || *number > kMaxAlignment) {
        return error_in_key(kKey, fmt::format("the alignment is {}, need a power of two from {} to {}", *number,
                                              kMinAlignment, kMaxAlignment));
      }
      alignment_ = *number;
    }
    return ok_status();
  }

  Status parse_tensor() {
    TensorInfo tensor;
    TensorPlace place;
    place.described_at = at_;
    std::string_view name;
    BASS_RETURN_IF_ERROR(read_name("a tensor's name", kMaxTensorNameBytes, names_, name));
    tensor.name = name;
    const std::string what = fmt::format("the description of tensor {}", in_quotes(tensor.name));
    uint32_t n_dims = 0;
    BASS_RETURN_IF_ERROR(read(what, n_dims));
    if (n_dims < 1 || n_dims > kMaxDims) {
      return error_at(place.described_at, fmt::format("tensor {} has {} dimensions, need 1 to {}",
                                                      in_quotes(tensor.name), n_dims, kMaxDims));
    }
    std::array<uint64_t, kMaxDims> dims{};
    for (uint32_t i = 0; i < n_dims; ++i) BASS_RETURN_IF_ERROR(read(what, dims[i]));
    uint32_t type_number = 0;
    BASS_RETURN_IF_ERROR(read(what, type_number));
    BASS_RETURN_IF_ERROR(read(what, place.offset));
    const DTypeInfo* type = find_dtype_info(type_number);
    if (type == nullptr) return unreadable_type(tensor.name, type_number, place.described_at);
    tensor.type = static_cast<DType>(type_number);
    BASS_RETURN_IF_ERROR(measure_tensor(std::span(dims).first(n_dims), *type, tensor, place));
    contents_.tensors.push_back(std::move(tensor));
    places_.push_back(place);
    return ok_status();
  }

  [[nodiscard]] Status unreadable_type(std::string_view name, uint32_t type_number, uint64_t at) const {
    std::string type;
    for (const ForeignType& foreign : kForeignTypes) {
      if (foreign.number == type_number) type = fmt::format(" ({})", foreign.name);
    }
    return error_at(at, fmt::format("tensor {} has type {}{}, which BASS cannot read; it reads {}", in_quotes(name),
                                    type_number, type, readable_dtypes()));
  }

  /// Shape and bytes of a tensor, without overflow. dims: [n_dims]
  Status measure_tensor(std::span<const uint64_t> dims, const DTypeInfo& type, TensorInfo& tensor,
                        TensorPlace& place) const {
    int64_t n_elements = 1;
    for (const uint64_t dim : dims) {
      if (dim == 0) {
        return error_at(place.described_at, fmt::format("tensor {} has a dimension of 0", in_quotes(tensor.name)));
      }
      if (__builtin_mul_overflow(n_elements, dim, &n_elements)) {
        return error_at(place.described_at, fmt::format("tensor {} has an impossible shape [{}]",
                                                        in_quotes(tensor.name), fmt::join(dims, ", ")));
      }
      tensor.shape.push_back(static_cast<int64_t>(dim));
    }
    if (tensor.shape[0] % type.block_len != 0) {
      return error_at(place.described_at,
                      fmt::format("tensor {} has rows of {} elements, which is no multiple of {}'s block of {}",
                                  in_quotes(tensor.name), tensor.shape[0], type.name, type.block_len));
    }
    const auto n_blocks = static_cast<uint64_t>(n_elements / type.block_len);
    if (__builtin_mul_overflow(n_blocks, static_cast<uint64_t>(type.block_bytes), &place.n_bytes)) {
      return error_at(place.described_at, fmt::format("tensor {} has an impossible shape [{}]", in_quotes(tensor.name),
                                                      fmt::join(dims, ", ")));
    }
    return ok_status();
  }

  /// Finds each tensor's bytes: aligned, inside of the file, and nobody else's.
  Status place_tensors() {
    const uint64_t data_at = (at_ + alignment_ - 1) / alignment_ * alignment_;
    for (size_t i = 0; i < places_.size(); ++i) {
      TensorInfo& tensor = contents_.tensors[i];
      const TensorPlace& place = places_[i];
      if (place.offset % alignment_ != 0) {
        return error_at(place.described_at, fmt::format("tensor {} has offset {}, which is no multiple of {}",
                                                        in_quotes(tensor.name), place.offset, alignment_));
      }
      const uint64_t n_data = data_at < bytes_.size() ? bytes_.size() - data_at : 0;
      if (place.offset > n_data || place.n_bytes > n_data - place.offset) {
        return error_at(place.described_at,
                        fmt::format("the {} bytes of tensor {} at offset {} reach past the end of the file ({} bytes): "
                                    "it is truncated or damaged",
                                    place.n_bytes, in_quotes(tensor.name), place.offset, bytes_.size()));
      }
      tensor.data = bytes_.subspan(data_at + place.offset, place.n_bytes);
    }
    return check_overlaps();
  }

  [[nodiscard]] Status check_overlaps() const {
    std::vector<size_t> order(places_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return places_[i].offset; });
    for (size_t k = 1; k < order.size(); ++k) {
      const TensorPlace& before = places_[order[k - 1]];
      const TensorPlace& place = places_[order[k]];
      if (before.offset + before.n_bytes > place.offset) {
        return error_at(place.described_at,
                        fmt::format("tensors {} and {} overlap", in_quotes(contents_.tensors[order[k - 1]].name),
                                    in_quotes(contents_.tensors[order[k]].name)));
      }
    }
    return ok_status();
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  uint64_t at_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  GgufContents contents_;
  std::vector<TensorPlace> places_;  // of contents_.tensors
  std::unordered_set<std::string_view> keys_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace

Result<GgufContents> parse_gguf(std::span<const std::byte> bytes, const std::string& path) {
  return GgufParser(bytes, path).parse();
}

}  // namespace bass
