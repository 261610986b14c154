#include "io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <random>

#include "support/gguf_builder.h"
#include "support/temp_folder.h"

namespace bass {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr uint32_t kTypeF32 = 0;
constexpr uint32_t kTypeQ4_1 = 3;
constexpr uint32_t kTypeQ8_0 = 8;
constexpr uint32_t kTypeQ4_K = 12;

std::span<const std::byte> as_bytes(const std::string& file) {
  return {reinterpret_cast<const std::byte*>(file.data()), file.size()};
}

/// The message about a broken file; empty if nothing was found wrong.
std::string error_of(const std::string& file) {
  const Result<GgufContents> contents = parse_gguf(as_bytes(file), "broken.gguf");
  if (contents.ok()) return "";
  EXPECT_EQ(contents.status().code(), StatusCode::kInvalidFile);
  EXPECT_THAT(contents.status().message(), StartsWith("broken.gguf: "));
  EXPECT_THAT(contents.status().message(), ::testing::AnyOf(HasSubstr("(at byte "), HasSubstr("(key '")));
  return contents.status().message();
}

std::string error_of(const GgufBuilder& builder) { return error_of(builder.build()); }

/// A file on disk that lives as long as the test's scope.
class TempFile {
 public:
  explicit TempFile(const std::string& content) { std::ofstream(path(), std::ios::binary) << content; }
  [[nodiscard]] std::string path() const { return folder_ / "file.gguf"; }

 private:
  testing::TempFolder folder_;
};

GgufBuilder all_kinds() {
  GgufBuilder builder;
  builder.add_string("general.architecture", "llama").add_u8("u8", 255).add_i8("i8", -128);
  builder.add_u16("u16", 65535).add_i16("i16", -32768).add_u32("u32", 4000000000u).add_i32("i32", -7);
  builder.add_f32("f32", 0.5f).add_bool("yes", true).add_bool("no", false).add_u64("u64", uint64_t{1} << 63);
  builder.add_i64("i64", -(int64_t{1} << 40)).add_f64("f64", 0.25).add_i64("small_i64", 12);
  builder.add_strings("strings", {"a", "", "long enough not to be small"}).add_strings("no_strings", {});
  builder.add_i32s("ints", {1, -2, 3}).add_f32s("floats", {1.5f, -2.0f}).add_array<uint64_t>("u64s", 10, {1, 2});
  builder.add_array<uint64_t>("huge_u64s", 10, {~uint64_t{0}}).add_array<uint8_t>("bools", 7, {1, 0});
  builder.add_f32_tensor("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
  builder.add_tensor("b.weight", kTypeQ8_0, {64, 2}, std::string(4 * 34, '\x11'));
  builder.add_tensor("c.weight", kTypeQ4_1, {32}, std::string(20, '\x22'));
  return builder;
}

TEST(GgufTest, ReadsMetadataOfAllTypes) {
  const TempFile temp(all_kinds().build());
  const Result<GgufFile> opened = GgufFile::open(temp.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const GgufFile& file = opened.value();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.path(), temp.path());
  EXPECT_EQ(file.get_string("general.architecture").value(), "llama");
  EXPECT_EQ(file.get_u32("u8").value(), 255u);
  EXPECT_EQ(file.get_u32("u16").value(), 65535u);
  EXPECT_EQ(file.get_u32("u32").value(), 4000000000u);
  EXPECT_EQ(file.get_u32("small_i64").value(), 12u);
  EXPECT_EQ(std::get<int64_t>(*file.find("i8")), -128);
  EXPECT_EQ(std::get<int64_t>(*file.find("i16")), -32768);
  EXPECT_EQ(std::get<int64_t>(*file.find("i64")), -(int64_t{1} << 40));
  EXPECT_EQ(std::get<uint64_t>(*file.find("u64")), uint64_t{1} << 63);
  EXPECT_EQ(file.get_f32("f32").value(), 0.5f);
  EXPECT_EQ(file.get_f32("f64").value(), 0.25f);
  EXPECT_TRUE(file.get_bool_or("yes", false).value());
  EXPECT_FALSE(file.get_bool_or("no", true).value());
  EXPECT_THAT(file.get_string_array("strings").value(), ElementsAre("a", "", "long enough not to be small"));
  EXPECT_THAT(file.get_string_array("no_strings").value(), IsEmpty());
  EXPECT_THAT(file.get_int_array("ints").value(), ElementsAre(1, -2, 3));
  EXPECT_THAT(file.get_int_array("u64s").value(), ElementsAre(1, 2));
  EXPECT_THAT(file.get_int_array("bools").value(), ElementsAre(1, 0));
  EXPECT_THAT(file.get_float_array("floats").value(), ElementsAre(1.5f, -2.0f));
  EXPECT_TRUE(file.has("u8"));
  EXPECT_FALSE(file.has("u9"));
}

TEST(GgufTest, DefaultsAreForMissingKeysOnly) {
  const TempFile temp(all_kinds().build());
  const GgufFile file = GgufFile::open(temp.path()).value();
  EXPECT_EQ(file.get_u32_or("none", 7).value(), 7u);
  EXPECT_EQ(file.get_f32_or("none", 1.5f).value(), 1.5f);
  EXPECT_EQ(file.get_string_or("none", "x").value(), "x");
  EXPECT_TRUE(file.get_bool_or("none", true).value());
  EXPECT_FALSE(file.get_u32_or("f32", 7).ok());
  EXPECT_FALSE(file.get_f32_or("u8", 1.5f).ok());
  EXPECT_FALSE(file.get_bool_or("u8", true).ok());
  EXPECT_FALSE(file.get_string_or("u8", "x").ok());
}

TEST(GgufTest, GettersNameFileAndKey) {
  const TempFile temp(all_kinds().build());
  const GgufFile file = GgufFile::open(temp.path()).value();
  const auto expect_message = [&](const Status& status, const std::string& key, const std::string& what) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidFile);
    EXPECT_THAT(status.message(),
                AllOf(StartsWith(temp.path() + ": "), HasSubstr("(key '" + key + "')"), HasSubstr(what)));
  };
  expect_message(file.get_u32("none").status(), "none", "missing");
  expect_message(file.get_string_array("none").status(), "none", "missing");
  expect_message(file.get_u32("general.architecture").status(), "general.architecture", "a string, need an integer");
  expect_message(file.get_u32("yes").status(), "yes", "a boolean, need an integer");
  expect_message(file.get_u32("i32").status(), "i32", "-7 is out of range");
  expect_message(file.get_u32("u64").status(), "u64", "9223372036854775808 is out of range");
  expect_message(file.get_f32("u8").status(), "u8", "an integer, need a floating-point number");
  expect_message(file.get_string("ints").status(), "ints", "an array of 3 I32 values, need a string");
  expect_message(file.get_string_array("ints").status(), "ints", "need an array of strings");
  expect_message(file.get_int_array("floats").status(), "floats", "need an array of integers");
  expect_message(file.get_int_array("strings").status(), "strings", "need an array of integers");
  expect_message(file.get_int_array("huge_u64s").status(), "huge_u64s", "need an array of integers");
  expect_message(file.get_float_array("ints").status(), "ints", "need an array of floating-point numbers");
}

TEST(GgufTest, FindsTensors) {
  const TempFile temp(all_kinds().build());
  GgufFile original = GgufFile::open(temp.path()).value();
  const GgufFile file = std::move(original);  // views stay valid
  ASSERT_THAT(file.tensors(), SizeIs(3));
  const TensorInfo* a = file.find_tensor("a.weight");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->type, DType::kF32);
  EXPECT_THAT(a->shape, ElementsAre(2, 3));
  ASSERT_EQ(a->data.size(), 24u);
  EXPECT_EQ(reinterpret_cast<const float*>(a->data.data())[5], 6.0f);
  const TensorInfo* b = file.find_tensor("b.weight");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, DType::kQ8_0);
  EXPECT_EQ(b->data.size(), 4u * 34);
  EXPECT_EQ(b->data.back(), std::byte{0x11});
  EXPECT_EQ(file.find_tensor("c.weight")->data.size(), 20u);
  EXPECT_EQ(file.find_tensor("d.weight"), nullptr);
  release_pages(b->data);
  EXPECT_EQ(b->data.back(), std::byte{0x11});
}

TEST(GgufTest, ReadsVersion2AndVocabularyOnlyFiles) {
  GgufBuilder builder;
  builder.override_version(2).add_string("general.architecture", "gpt2");
  const std::string file = builder.build();
  const Result<GgufContents> contents = parse_gguf(as_bytes(file), "vocab.gguf");
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_EQ(contents->version, 2u);
  EXPECT_THAT(contents->tensors, IsEmpty());
}

TEST(GgufTest, UsesTheFilesAlignment) {
  for (const uint32_t alignment : {8u, 64u, 4096u, 1u << 20}) {
    GgufBuilder builder;
    builder.set_alignment(alignment).add_f32_tensor("a", {1}, {1}).add_f32_tensor("b", {1}, {2});
    const std::string file = builder.build();
    const Result<GgufContents> contents = parse_gguf(as_bytes(file), "x");
    ASSERT_TRUE(contents.ok()) << contents.status().message();
    EXPECT_EQ(contents->tensors[1].data.data() - contents->tensors[0].data.data(), alignment);
  }
}

TEST(GgufTest, EveryTruncationIsAnError) {
  const GgufBuilder builder = all_kinds();
  const std::string file = builder.build();
  ASSERT_EQ(error_of(file), "");
  for (size_t len = 1; len < builder.build_header().size(); ++len) {
    // A buffer of its own, so that AddressSanitizer sees a read past the end.
    EXPECT_THAT(error_of(file.substr(0, len)), HasSubstr("truncated")) << len;
  }
  const std::string cut = error_of(file.substr(0, file.size() - 1));
  EXPECT_THAT(cut, AllOf(HasSubstr("tensor 'c.weight'"), HasSubstr("past the end of the file")));
}

TEST(GgufTest, DamagedBytesNeverCrash) {
  const std::string file = all_kinds().build();
  const size_t n_header = all_kinds().build_header().size();
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same bytes each run
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = file;
    const int n_changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < n_changes; ++i) damaged[random() % n_header] = static_cast<char>(random());
    error_of(damaged);
  }
}

TEST(GgufTest, RefusesOtherFiles) {
  const auto with_tail = [](const std::string& head) { return head + std::string(64, ' '); };
  EXPECT_THAT(error_of(with_tail("what?")), HasSubstr("is no GGUF file"));
  for (const char* pickle : {"PK\x03\x04", "\x80\x02\x8A"}) {
    EXPECT_THAT(error_of(with_tail(pickle)), HasSubstr("write the model as safetensors"));
  }
  EXPECT_THAT(error_of(with_tail(std::string("\x40\0\0\0\0\0\0\0{\"a\":", 13))), HasSubstr("safetensors"));
  EXPECT_THAT(error_of(with_tail("<!DOCTYPE html>")), HasSubstr("web page"));
  EXPECT_THAT(error_of(with_tail("version https://git-lfs.github.com/spec/v1\n")), HasSubstr("Git LFS"));
  EXPECT_THAT(error_of(with_tail("tjgg")), HasSubstr("older than GGUF"));
  EXPECT_THAT(error_of(with_tail("FUGG")), HasSubstr("big-endian"));
}

TEST(GgufTest, RefusesOtherVersions) {
  for (const uint32_t version : {0u, 1u, 4u, 99u}) {
    EXPECT_THAT(error_of(GgufBuilder().override_version(version)),
                HasSubstr("has GGUF version " + std::to_string(version) + "; BASS reads 2 and 3"));
  }
  EXPECT_THAT(error_of(GgufBuilder().override_version(0x03000000)), HasSubstr("big-endian"));
}

TEST(GgufTest, RefusesHostileCounts) {
  for (const uint64_t count : {uint64_t{1000}, uint64_t{1} << 32, uint64_t{1} << 60, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_THAT(error_of(GgufBuilder().override_n_metadata(count)), HasSubstr("metadata entries"));
    EXPECT_THAT(error_of(GgufBuilder().override_n_tensors(count)), HasSubstr("tensors"));
    const std::string count_bytes = GgufBuilder::bytes_of(count);
    EXPECT_THAT(error_of(GgufBuilder().raw_entry("many", 8, count_bytes + "abc")), HasSubstr("'many'"));
    for (const uint32_t type : {0u, 4u, 7u, 8u, 12u}) {
      EXPECT_THAT(error_of(GgufBuilder().raw_entry("many", 9, GgufBuilder::bytes_of(type) + count_bytes + "abc")),
                  AllOf(HasSubstr("'many'"), HasSubstr("elements")));
    }
    EXPECT_THAT(error_of(GgufBuilder().raw_entry("text", 8, count_bytes)), HasSubstr("'text'"));
  }
}

TEST(GgufTest, RefusesBadMetadata) {
  EXPECT_THAT(error_of(GgufBuilder().add_u8("", 1)), HasSubstr("a metadata key is empty"));
  EXPECT_THAT(error_of(GgufBuilder().add_u8(std::string(70000, 'k'), 1)), HasSubstr("70000 bytes, more than 65535"));
  EXPECT_THAT(error_of(GgufBuilder().add_u8("twice", 1).add_u8("twice", 2)), HasSubstr("'twice' occurs twice"));
  EXPECT_THAT(error_of(GgufBuilder().raw_entry("odd", 13, "12345678")),
              AllOf(HasSubstr("'odd'"), HasSubstr("unknown value type 13")));
  const std::string nested = GgufBuilder::bytes_of(uint32_t{9}) + GgufBuilder::bytes_of(uint64_t{1}) + "12345678";
  EXPECT_THAT(error_of(GgufBuilder().raw_entry("deep", 9, nested)),
              AllOf(HasSubstr("'deep'"), HasSubstr("holds arrays")));
  const std::string unknown = GgufBuilder::bytes_of(uint32_t{99}) + GgufBuilder::bytes_of(uint64_t{1}) + "12345678";
  EXPECT_THAT(error_of(GgufBuilder().raw_entry("odd", 9, unknown)), HasSubstr("unknown element type 99"));
}

TEST(GgufTest, MessagesEscapeWhatTheFileSays) {
  const std::string message = error_of(GgufBuilder().raw_entry("\x1b[31mred\n", 77, "1"));
  EXPECT_THAT(message, HasSubstr("'\\x1b[31mred\\x0a'"));
}

TEST(GgufTest, RefusesBadAlignment) {
  for (const uint32_t alignment : {0u, 1u, 3u, 4u, 24u, 1u << 21, 1u << 31, 0xFFFFFFFFu}) {
    EXPECT_THAT(error_of(GgufBuilder().add_u32("general.alignment", alignment)),
                AllOf(HasSubstr("(key 'general.alignment')"), HasSubstr(std::to_string(alignment))));
  }
  EXPECT_THAT(error_of(GgufBuilder().add_string("general.alignment", "32")), HasSubstr("no unsigned integer"));
  EXPECT_THAT(error_of(GgufBuilder().add_i32("general.alignment", 32)), HasSubstr("no unsigned integer"));
}

TEST(GgufTest, RefusesTensorTypes) {
  const std::string data(1024, '\0');
  EXPECT_EQ(
      error_of(GgufBuilder().add_tensor("x", 23, {256}, data)),
      "broken.gguf: tensor 'x' has type 23 (IQ4_XS), which BASS cannot read; it reads F32, F16, BF16, Q8_0, Q4_0, "
      "Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL (at byte 24)");
  // Removed ones, and such as there never were.
  for (const uint32_t type : {4u, 5u, 31u, 33u, 36u, 38u, 1234u, 0xFFFFFFFFu}) {
    EXPECT_THAT(error_of(GgufBuilder().add_tensor("x", type, {256}, data)),
                HasSubstr("has type " + std::to_string(type) + ", which"));
  }
}

TEST(GgufTest, RefusesShapes) {
  const std::string data(1024, '\0');
  const auto expect_error = [&](uint32_t type, const std::vector<uint64_t>& shape, const std::string& what) {
    EXPECT_THAT(error_of(GgufBuilder().add_tensor("x", type, shape, data)),
                AllOf(HasSubstr("tensor 'x'"), HasSubstr(what)));
  };
  expect_error(kTypeF32, {}, "has 0 dimensions");
  expect_error(kTypeF32, {1, 1, 1, 1, 1}, "has 5 dimensions");
  expect_error(kTypeF32, {4, 0}, "has a dimension of 0");
  expect_error(kTypeF32, {static_cast<uint64_t>(int64_t{-1})}, "impossible shape");
  expect_error(kTypeF32, {uint64_t{1} << 63}, "impossible shape");
  expect_error(kTypeF32, {uint64_t{1} << 62}, "impossible shape");
  expect_error(kTypeF32, {uint64_t{1} << 60}, "past the end");
  expect_error(kTypeF32, {uint64_t{1} << 32, uint64_t{1} << 32}, "impossible shape [4294967296, 4294967296]");
  expect_error(kTypeF32, {~uint64_t{0}, 2}, "impossible shape");
  expect_error(kTypeQ8_0, {33}, "rows of 33 elements, which is no multiple of Q8_0's block of 32");
  expect_error(kTypeQ4_1, {16, 2}, "rows of 16 elements");
  expect_error(kTypeQ4_K, {288, 2}, "rows of 288 elements, which is no multiple of Q4_K's block of 256");
  expect_error(kTypeF32, {257}, "past the end");
}

TEST(GgufTest, RefusesTensorNames) {
  const std::string data(4, '\0');
  EXPECT_EQ(error_of(GgufBuilder().add_tensor(std::string(63, 'n'), kTypeF32, {1}, data)), "");
  EXPECT_THAT(error_of(GgufBuilder().add_tensor(std::string(64, 'n'), kTypeF32, {1}, data)),
              HasSubstr("a tensor's name has 64 bytes, more than 63"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("", kTypeF32, {1}, data)), HasSubstr("a tensor's name is empty"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("x", kTypeF32, {1}, data).add_tensor("x", kTypeF32, {1}, data)),
              HasSubstr("'x' occurs twice"));
}

/// A file of n shards; the test damages one.
class SplitTest : public ::testing::Test {
 protected:
  SplitTest() {
    for (int i = 0; i < 3; ++i) write(i, shard(i, 3, "t" + std::to_string(i)));
  }

  static GgufBuilder shard(int i, int n, const std::string& tensor) {
    GgufBuilder builder;
    if (i == 0) builder.add_string("general.architecture", "llama");
    builder.add_u16("split.no", static_cast<uint16_t>(i)).add_u16("split.count", static_cast<uint16_t>(n));
    return builder.add_i32("split.tensors.count", 3).add_f32_tensor(tensor, {1}, {static_cast<float>(i)});
  }
  [[nodiscard]] std::string path(int i) const {
    return folder_ / ("x-0000" + std::to_string(i + 1) + "-of-00003.gguf");
  }
  void write(int i, const GgufBuilder& builder) const { builder.write(path(i)); }
  [[nodiscard]] std::string error(int i = 0) const {
    const Result<GgufFile> file = GgufFile::open(path(i));
    return file.ok() ? "" : file.status().message();
  }

  testing::TempFolder folder_;
};

TEST_F(SplitTest, AnyShardOpensAll) {
  for (int i = 0; i < 3; ++i) {
    const Result<GgufFile> file = GgufFile::open(path(i));
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->get_string("general.architecture").value(), "llama");
    ASSERT_THAT(file->tensors(), SizeIs(3));
    for (int k = 0; k < 3; ++k) {
      const TensorInfo* tensor = file->find_tensor("t" + std::to_string(k));
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(*reinterpret_cast<const float*>(tensor->data.data()), static_cast<float>(k));
    }
    EXPECT_EQ(file->file_bytes(),
              static_cast<int64_t>(3 * std::filesystem::file_size(path(1)) +
                                   (std::filesystem::file_size(path(0)) - std::filesystem::file_size(path(1)))));
  }
}

TEST_F(SplitTest, RefusesBrokenSets) {
  write(1, shard(2, 3, "t1"));
  EXPECT_THAT(error(), AllOf(HasSubstr(path(1)), HasSubstr("is part 3 of 3 by its own account, not part 2 of 3")));
  write(1, shard(1, 4, "t1"));
  EXPECT_THAT(error(), HasSubstr("is part 2 of 4 by its own account"));
  EXPECT_THAT(error(1), HasSubstr("so its name must end in -00002-of-00004.gguf"));
  write(1, shard(1, 3, "t0"));
  EXPECT_THAT(error(), AllOf(HasSubstr("tensor 't0' is in "), HasSubstr(path(0))));
  write(1, shard(1, 3, "t1").add_f32_tensor("more", {1}, {1}));
  EXPECT_THAT(error(), HasSubstr("its parts hold 4 tensors, not 3 (key 'split.tensors.count')"));
  write(1, GgufBuilder().add_string("split.no", "1").add_u16("split.count", 3));
  EXPECT_THAT(error(), HasSubstr("is no whole number from 0 to 99999 (key 'split.no')"));
  write(1, GgufBuilder().add_i32("split.no", -1).add_u16("split.count", 3));
  EXPECT_THAT(error(), HasSubstr("(key 'split.no')"));
  std::filesystem::remove(path(1));
  EXPECT_THAT(error(), AllOf(HasSubstr(path(1)), HasSubstr("cannot open")));
}

TEST(GgufTest, RefusesTensorPlaces) {
  const auto broken = [](uint64_t offset) {
    GgufBuilder builder;
    builder.add_f32_tensor("a", {16}, std::vector<float>(16)).raw_tensor("b", kTypeF32, {8}, offset);
    return error_of(builder);
  };
  EXPECT_THAT(broken(33), AllOf(HasSubstr("'b'"), HasSubstr("no multiple of 32")));
  EXPECT_THAT(broken(64), AllOf(HasSubstr("'b'"), HasSubstr("past the end")));
  EXPECT_THAT(broken(~uint64_t{31}), AllOf(HasSubstr("'b'"), HasSubstr("past the end")));
  EXPECT_THAT(broken(0), HasSubstr("tensors 'a' and 'b' overlap"));
  EXPECT_THAT(broken(32), HasSubstr("tensors 'a' and 'b' overlap"));
}

TEST(GgufTest, RefusesBadTensorNames) {
  EXPECT_THAT(error_of(GgufBuilder().add_f32_tensor("", {1}, {1})), HasSubstr("a tensor's name is empty"));
  EXPECT_THAT(error_of(GgufBuilder().add_f32_tensor("a", {1}, {1}).add_f32_tensor("a", {1}, {1})),
              HasSubstr("'a' occurs twice"));
}

TEST(GgufTest, OpenNamesThePath) {
  const std::string missing = ::testing::TempDir() + "no_such_model.gguf";
  EXPECT_THAT(GgufFile::open(missing).status().message(), StartsWith(missing + ": "));
  EXPECT_THAT(GgufFile::open(::testing::TempDir()).status().message(), HasSubstr("a directory"));
  const TempFile empty("");
  EXPECT_THAT(GgufFile::open(empty.path()).status().message(), HasSubstr("is empty"));
  const TempFile fifo("");
  std::filesystem::remove(fifo.path());
  ASSERT_EQ(::mkfifo(fifo.path().c_str(), 0600), 0);
  EXPECT_THAT(GgufFile::open(fifo.path()).status().message(), HasSubstr("FIFO"));
}

}  // namespace
}  // namespace bass
