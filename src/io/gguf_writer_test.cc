#include "io/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

namespace bass {
namespace {

using ::testing::ElementsAre;

/// Takes a written file into memory.
struct MemoryFile {
  std::vector<std::byte> bytes;

  ByteSink sink() {
    return [this](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return ok_status();
    };
  }
  [[nodiscard]] GgufContents parse() const {
    Result<GgufContents> contents = parse_gguf(bytes, "written");
    EXPECT_TRUE(contents.ok()) << contents.status().message();
    return contents.ok() ? std::move(contents).value() : GgufContents{};
  }
};

void expect_equal(const GgufValue& read, const GgufValue& written) {
  ASSERT_EQ(read.index(), written.index());
  if (const auto* array = std::get_if<GgufArray>(&written)) {
    const auto& other = std::get<GgufArray>(read);
    EXPECT_EQ(other.element_type, array->element_type);
    EXPECT_EQ(other.n_elements, array->n_elements);
    EXPECT_TRUE(std::ranges::equal(other.bytes, array->bytes));
  } else if (const auto* number = std::get_if<double>(&written)) {
    EXPECT_EQ(std::bit_cast<uint64_t>(std::get<double>(read)), std::bit_cast<uint64_t>(*number));
  } else {
    EXPECT_TRUE(std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, GgufArray>)
            return false;
          else
            return std::get<T>(read) == value;
        },
        written));
  }
}

// Random files: what is written is read back, byte by byte, through values, tensors, padding and pieces of any size.
TEST(GgufWriterTest, WhatIsWrittenIsReadBack) {
  constexpr int kNFiles = 200;
  std::mt19937_64 random(1);
  const auto below = [&](uint64_t n) { return random() % n; };
  const auto random_text = [&] {
    std::string text(below(40), '\0');
    for (char& c : text) c = static_cast<char>(below(256));
    return text;
  };
  for (int file_idx = 0; file_idx < kNFiles; ++file_idx) {
    MemoryFile file;
    GgufWriter writer(file.sink());
    std::vector<std::string> texts(20);
    std::vector<int32_t> ints(below(20));
    for (std::string& text : texts) text = random_text();
    for (int32_t& number : ints) number = static_cast<int32_t>(random());
    std::vector<std::pair<std::string, GgufValue>> values;
    for (uint64_t n = below(12); n > 0; --n) {
      const double number = static_cast<double>(static_cast<int64_t>(random())) / static_cast<double>(1 + below(1000));
      const GgufValue choices[] = {random() >> below(64),
                                   -static_cast<int64_t>(random() >> (1 + below(63))),
                                   number,
                                   static_cast<double>(static_cast<float>(number)),
                                   below(2) == 0,
                                   std::string_view(texts[below(texts.size())])};
      values.emplace_back("key" + std::to_string(n), choices[below(std::size(choices))]);
      writer.add_value(values.back().first, values.back().second);
    }
    writer.add_strings("strings", texts);
    writer.add_i32s("ints", ints);

    std::vector<std::vector<std::byte>> tensors(below(6));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const DType type = std::array{DType::kF32, DType::kF16, DType::kQ4_1, DType::kQ8_0}[below(4)];
      const DTypeInfo& info = dtype_info(type);
      const auto n_blocks = static_cast<int64_t>(1 + below(5)), n_rows = static_cast<int64_t>(1 + below(5));
      writer.add_tensor("t" + std::to_string(i), type, {n_blocks * info.block_len, n_rows});
      tensors[i].resize(static_cast<size_t>(n_blocks * n_rows * info.block_bytes));
      for (std::byte& byte : tensors[i]) byte = static_cast<std::byte>(random());
    }
    ASSERT_TRUE(writer.begin().ok());
    for (std::span<const std::byte> rest : tensors) {
      while (!rest.empty()) {
        const size_t n = 1 + below(rest.size());
        ASSERT_TRUE(writer.write(rest.first(n)).ok());
        rest = rest.subspan(n);
      }
    }
    ASSERT_TRUE(writer.finish().ok());
    EXPECT_EQ(writer.file_bytes(), file.bytes.size());

    const GgufContents contents = file.parse();
    EXPECT_EQ(contents.version, 3u);
    ASSERT_EQ(contents.metadata.size(), values.size() + 2);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(contents.metadata[i].first, values[i].first);
      expect_equal(contents.metadata[i].second, values[i].second);
    }
    ASSERT_EQ(contents.tensors.size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(std::ranges::equal(contents.tensors[i].data, tensors[i]));

    // A reader's values, arrays among them, can be written again: the same file but for its tensors.
    MemoryFile copy;
    GgufWriter copier(copy.sink());
    for (const auto& [key, value] : contents.metadata) copier.add_value(key, value);
    ASSERT_TRUE(copier.begin().ok());
    const GgufContents copied = copy.parse();
    ASSERT_EQ(copied.metadata.size(), contents.metadata.size());
    for (size_t i = 0; i < copied.metadata.size(); ++i) {
      expect_equal(copied.metadata[i].second, contents.metadata[i].second);
    }
  }
}

TEST(GgufWriterTest, NarrowsNumbersOnlyWhereNothingIsLost) {
  MemoryFile file;
  GgufWriter writer(file.sink());
  const GgufValue values[] = {uint64_t{0xFFFFFFFF},
                              uint64_t{0x100000000},
                              int64_t{-0x80000000LL},
                              int64_t{-0x80000001LL},
                              0.5,
                              0.1,
                              std::numeric_limits<double>::infinity(),
                              -0.0};
  for (size_t i = 0; i < std::size(values); ++i) writer.add_value(std::to_string(i), values[i]);
  ASSERT_TRUE(writer.begin().ok());
  const GgufContents contents = file.parse();
  std::vector<uint32_t> types;
  for (size_t i = 0; i < std::size(values); ++i) {
    expect_equal(contents.metadata[i].second, values[i]);
    uint32_t type = 0;  // stands behind the key
    std::memcpy(&type, contents.metadata[i].first.data() + contents.metadata[i].first.size(), sizeof(type));
    types.push_back(type);
  }
  EXPECT_THAT(types, ElementsAre(4, 10, 5, 11, 6, 12, 6, 6));  // U32 U64 I32 I64 F32 F64 F32 F32
}

TEST(GgufWriterTest, TheSinksErrorIsPassedOn) {
  int n_calls_left = 1;
  GgufWriter writer([&](std::span<const std::byte>) {
    return n_calls_left-- > 0 ? ok_status() : resource_exhausted("disk is full");
  });
  writer.add_tensor("t", DType::kF32, {4});
  ASSERT_TRUE(writer.begin().ok());
  const std::vector<std::byte> data(16);
  EXPECT_EQ(writer.write(data).message(), "disk is full");
}

TEST(GgufWriterDeathTest, MistakesOfOursEndTheProcess) {
  GgufWriter writer([](std::span<const std::byte>) { return ok_status(); });
  writer.add_u32("key", 1);
  EXPECT_DEATH(writer.add_bool("key", true), "");
  EXPECT_DEATH(writer.add_tensor("t", DType::kQ4_1, {31}), "");
  writer.add_tensor("t", DType::kF32, {4});
  EXPECT_DEATH(static_cast<void>(writer.finish()), "");
}

}  // namespace
}  // namespace bass
