#include "text/sentencepiece_file.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace bass {
namespace {

/// One field of a protocol buffers message.
struct Field {
  uint32_t number = 0;
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 } type = Type::kVarint;
  uint64_t value = 0;      ///< of numbers
  std::string_view bytes;  ///< of strings and messages
};

/// Reads the fields of a message, one after the other.
class MessageReader {
 public:
  /// `offset`: where the message is in the file.
  MessageReader(std::string_view message, size_t offset) : rest_(message), offset_(offset) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  /// Of the next byte, in the file.
  [[nodiscard]] size_t offset() const { return offset_; }

  Result<Field> next() {
    const size_t begin = offset_;
    BASS_ASSIGN_OR_RETURN(const uint64_t tag, varint());
    Field field{.number = static_cast<uint32_t>(tag >> 3), .type = static_cast<Field::Type>(tag & 7)};
    switch (field.type) {
      case Field::Type::kVarint: {
        BASS_ASSIGN_OR_RETURN(field.value, varint());
        break;
      }
      case Field::Type::kBytes: {
        BASS_ASSIGN_OR_RETURN(const uint64_t n_bytes, varint());
        BASS_ASSIGN_OR_RETURN(field.bytes, take(n_bytes));
        break;
      }
      case Field::Type::kFixed64:
      case Field::Type::kFixed32: {
        BASS_ASSIGN_OR_RETURN(const std::string_view number, take(field.type == Field::Type::kFixed64 ? 8 : 4));
        std::memcpy(&field.value, number.data(), number.size());  // little-endian, like the machine
        break;
      }
      default:
        return broken(begin);
    }
    return field;
  }

 private:
  static Status broken(size_t at) {
    return invalid_file(fmt::format("no SentencePiece model (broken at byte {})", at));
  }

  Result<std::string_view> take(uint64_t n_bytes) {
    if (n_bytes > rest_.size()) return broken(offset_);
    const std::string_view taken = rest_.substr(0, n_bytes);
    rest_.remove_prefix(n_bytes);
    offset_ += n_bytes;
    return taken;
  }

  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      BASS_ASSIGN_OR_RETURN(const std::string_view byte, take(1));
      const auto bits = static_cast<unsigned char>(byte[0]);
      value |= uint64_t{bits & 0x7Fu} << shift;
      if (bits < 0x80) return value;
    }
    return broken(offset_);
  }

  std::string_view rest_;
  size_t offset_;
};

/// Calls `function(field)` for all fields of a message. `offset`: where it is in the file.
template <class F>
Status for_each_field(std::string_view message, size_t offset, const F& function) {
  for (MessageReader reader(message, offset); !reader.at_end();) {
    BASS_ASSIGN_OR_RETURN(const Field field, reader.next());
    BASS_RETURN_IF_ERROR(function(field));
  }
  return ok_status();
}

class ModelParser {
 public:
  ModelParser(std::string_view file, const std::string& source) : file_(file) { vocab_.source = source; }

  Result<VocabData> run() {
    vocab_.remove_extra_whitespaces = true;  // the file's default
    BASS_RETURN_IF_ERROR(for_each_field(file_, 0, [&](const Field& field) -> Status {
      if (field.type != Field::Type::kBytes) return ok_status();
      const auto offset = static_cast<size_t>(field.bytes.data() - file_.data());
      if (field.number == 1) return read_piece(field.bytes, offset);
      if (field.number == 2) return read_trainer(field.bytes, offset);
      if (field.number == 3) return read_normalizer(field.bytes, offset);
      return field.number == 5 ? read_denormalizer(field.bytes, offset) : ok_status();
    }));
    if (vocab_.tokens.empty()) return invalid_file("no SentencePiece model: it has no pieces");
    if (model_type_ != 1 && model_type_ != 2) {
      return invalid_file("the model is neither unigram nor BPE; BASS knows no others");
    }
    vocab_.model = model_type_ == 1 ? "t5" : "llama";
    return check_ids();
  }

 private:
  Status read_piece(std::string_view message, size_t offset) {
    std::string text;
    float score = 0;
    uint64_t type = 1;
    BASS_RETURN_IF_ERROR(for_each_field(message, offset, [&](const Field& field) {
      if (field.number == 1) text = field.bytes;
      if (field.number == 2) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      if (field.number == 3) type = field.value;
      return ok_status();
    }));
    if (text.empty()) return invalid_file(fmt::format("piece {} has no text", vocab_.tokens.size()));
    if (type < 1 || type > 6)
      return invalid_file(fmt::format("piece {} has the unknown type {}", vocab_.tokens.size(), type));
    if (type == static_cast<uint64_t>(TokenType::kUnknown)) {
      vocab_.unknown_id = static_cast<int32_t>(vocab_.tokens.size());
    }
    vocab_.tokens.push_back(std::move(text));
    vocab_.scores.push_back(score);
    vocab_.token_types.push_back(static_cast<int32_t>(type));
    return ok_status();
  }

  Status read_trainer(std::string_view message, size_t offset) {
    return for_each_field(message, offset, [&](const Field& field) {
      if (field.number == 3) model_type_ = field.value;
      if (field.number == 24 && field.value != 0) return invalid_file("white space as a suffix is not supported");
      // The others are ids; a negative one says that there is none.
      if (field.number == 41) bos_ = static_cast<int64_t>(field.value);
      if (field.number == 42) eos_ = static_cast<int64_t>(field.value);
      if (field.number == 43) padding_ = static_cast<int64_t>(field.value);
      return ok_status();
    });
  }

  Status read_normalizer(std::string_view message, size_t offset) {
    return for_each_field(message, offset, [&](const Field& field) {
      if (field.number == 2) vocab_.precompiled_charsmap = field.bytes;
      if (field.number == 3) vocab_.add_space_prefix = field.value != 0;
      if (field.number == 4) vocab_.remove_extra_whitespaces = field.value != 0;
      if (field.number == 5 && field.value == 0) return invalid_file("spaces that are not escaped are not supported");
      return ok_status();
    });
  }

  static Status read_denormalizer(std::string_view message, size_t offset) {
    return for_each_field(message, offset, [](const Field& field) {
      return field.number == 2 && !field.bytes.empty() ? invalid_file("a denormalizer is not supported") : ok_status();
    });
  }

  /// Of the special ids, those that the vocabulary has as control tokens count.
  Result<VocabData> check_ids() {
    const auto id_of = [&](int64_t id) -> std::optional<int32_t> {
      const bool is_there = id >= 0 && id < static_cast<int64_t>(vocab_.tokens.size()) &&
                            vocab_.token_types[static_cast<size_t>(id)] == static_cast<int32_t>(TokenType::kControl);
      return is_there ? std::optional(static_cast<int32_t>(id)) : std::nullopt;
    };
    vocab_.bos_id = id_of(bos_);
    vocab_.eos_id = id_of(eos_);
    vocab_.padding_id = id_of(padding_);
    return std::move(vocab_);
  }

  std::string_view file_;
  VocabData vocab_;
  uint64_t model_type_ = 1;
  int64_t bos_ = 1, eos_ = 2, padding_ = -1;  // the format's defaults
};

}  // namespace

Result<VocabData> parse_sentencepiece(std::string_view bytes, const std::string& source) {
  Result<VocabData> vocab = ModelParser(bytes, source).run();
  if (!vocab.ok()) return invalid_file(fmt::format("{}: {}", source, vocab.status().message()));
  return vocab;
}

}  // namespace bass
