#include "io/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "support/temp_folder.h"

namespace bass {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string with_length(const std::string& header, uint64_t len) {
  std::string file(sizeof(len), '\0');
  std::memcpy(file.data(), &len, sizeof(len));
  return file + header;
}

std::string file_of(const std::string& header, size_t n_data = 0) {
  return with_length(header, header.size()) + std::string(n_data, '\x11');
}

Result<std::vector<SafetensorsTensor>> parse(const std::string& file) {
  return parse_safetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()}, "x.safetensors");
}

/// The message about a broken file; empty if nothing was found wrong.
std::string parse_error(const std::string& file) {
  const auto tensors = parse(file);
  if (tensors.ok()) return "";
  EXPECT_EQ(tensors.status().code(), StatusCode::kInvalidFile);
  EXPECT_THAT(tensors.status().message(), StartsWith("x.safetensors: "));
  EXPECT_THAT(tensors.status().message(), ::testing::AnyOf(HasSubstr("(at byte "), HasSubstr("(key '")));
  return tensors.status().message();
}

/// Of one tensor.
std::string entry(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"("a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

constexpr const char* kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"data_offsets":[16,18],"shape":[],"dtype":"BF16"},)"
    R"("a.w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}   )";

TEST(SafetensorsTest, ReadsTensors) {
  const std::string file = file_of(kTwo, 18);
  const auto tensors = parse(file).value();
  ASSERT_THAT(tensors, SizeIs(2));
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(tensors[0].type->dtype, DType::kBF16);
  EXPECT_THAT(tensors[0].shape, IsEmpty());
  EXPECT_EQ(tensors[0].data.size(), 2U);
  EXPECT_EQ(tensors[1].name, "a.w");
  EXPECT_THAT(tensors[1].shape, ElementsAre(2, 2));
  EXPECT_EQ(tensors[1].data.data(), tensors[0].data.data() - 16);
  EXPECT_THAT(parse(file_of("{}")).value(), IsEmpty());
}

TEST(SafetensorsTest, OtherTypesAndEmptyTensorsMayBeThere) {
  const auto tensors = parse(file_of("{" + entry("I64", "[0,3]", "[0,0]") + "}")).value();
  EXPECT_FALSE(tensors[0].type->dtype.has_value());
  EXPECT_THAT(tensors[0].shape, ElementsAre(0, 3));
}

TEST(SafetensorsTest, RefusesBrokenHeaders) {
  struct Case {
    std::string file;
    const char* message;
  };
  const std::string ok = entry("F32", "[1]", "[0,4]");
  const std::string deep(100000, '[');
  const Case cases[] = {
      {"", "ends within its header's length"},
      {"1234567", "ends within its header's length"},
      {with_length("{}", ~uint64_t{0}), "18446744073709551615 bytes, more than 100000000"},
      {with_length("{}", 100000001), "100000001 bytes, more than"},
      {with_length("{}", 3), "its header claims 3 bytes, but only 2 are left"},
      {with_length("{}", 0), "ends too early"},
      {file_of("[]"), "is no JSON object"},
      {file_of("7"), "is no JSON object"},
      {file_of("{\"a\""), "ends too early"},
      {file_of("{} {}"), "no valid JSON"},
      {file_of("{'a':1}"), "no valid JSON"},
      {file_of("{\"a\xff\":1}"), "invalid UTF-8"},
      {file_of("{\"a\\ud800\":1}"), "no valid JSON"},
      {file_of("{\"a\":" + deep), "nested deeper than 64"},
      {file_of("{\"a\":1e999}"), "too large"},
      {file_of("{" + ok + "," + ok + "}", 4), "occurs twice (key 'a')"},
      {file_of(R"({"a":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}})", 4),
       "occurs twice (key 'a.dtype')"},
      {file_of(R"({"a":5})"), "must be an object with dtype, shape and data_offsets"},
      {file_of(R"({"a":{}})"), "must be an object with dtype, shape and data_offsets"},
      {file_of(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "has no dtype (key 'a')"},
      {file_of(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "has no shape"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "data_offsets must be two whole numbers"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", 4), "has no place for 'more'"},
      {file_of(R"({"a":{"dtype":"F32","shape":{"b":1},"data_offsets":[0,4]}})", 4), "has no place for 'shape.b'"},
      {file_of(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4), "the dtype is a number"},
      {file_of(R"({"__metadata__":{"a":5}})"), "must hold strings only"},
      {file_of("{" + entry("F99", "[1]", "[0,4]") + "}", 4), "unknown dtype 'F99'"},
      {file_of("{" + entry("F32", "[-1]", "[0,4]") + "}", 4), "the shape holds a negative number"},
      {file_of("{" + entry("F32", "[1.5]", "[0,4]") + "}", 4), "the shape holds a fraction"},
      {file_of("{" + entry("F32", "[99999999999999999999]", "[0,4]") + "}", 4), "the shape holds a fraction"},
      {file_of("{" + entry("F32", "[4294967296,4294967296]", "[0,4]") + "}", 4), "impossibly large"},
      {file_of("{" + entry("F32", "[[1]]", "[0,4]") + "}", 4), "has no place for 'shape.0.0'"},
      {file_of("{" + entry("F32", "[1]", "[4,0]") + "}", 4), "end at 0, before they begin at 4"},
      {file_of("{" + entry("F32", "[1]", "[0,4,8]") + "}", 4), "must be two whole numbers"},
      {file_of("{" + entry("F32", "[1]", "[0,-4]") + "}", 4), "must be two whole numbers"},
      {file_of("{" + entry("F32", "[1]", "[]") + "}", 4), "must be two whole numbers"},
      {file_of("{" + entry("F32", "[1]", "[0,5]") + "}", 4), "end at 5, but there are 4 bytes"},
      {file_of("{" + entry("F32", "[2]", "[0,4]") + "}", 4), "needs 8 bytes, its data_offsets have 4"},
      {file_of("{" + entry("F32", "[1]", "[1,5]") + "}", 5), "1 bytes of data before the tensor are nobody's"},
      {file_of("{" + ok + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})", 7), "overlaps"},
      {file_of("{" + ok + "}", 5), "1 bytes behind the last tensor are nobody's"},
  };
  for (const Case& broken : cases)
    EXPECT_THAT(parse_error(broken.file), HasSubstr(broken.message)) << broken.file.substr(0, 90);
}

TEST(SafetensorsTest, MessagesSayWhereAndAreForTerminals) {
  EXPECT_THAT(parse_error(file_of("{\"a\":x}")), HasSubstr("(at byte 13)"));
  EXPECT_THAT(parse_error(file_of("{\"\\u001b[31m\":5}")), HasSubstr("(key '\\x1b[31m')"));
}

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  const std::string file = file_of(kTwo, 18);
  ASSERT_EQ(parse_error(file), "");
  for (size_t len = 0; len < file.size(); ++len) EXPECT_NE(parse_error(std::string(file.data(), len)), "") << len;
}

TEST(SafetensorsTest, DamagedBytesNeverCrash) {
  const std::string file = file_of(kTwo, 18);
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same bytes each run
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = file;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    parse_error(damaged);
  }
}

/// A directory that lives as long as the test.
class CheckpointTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(directory_ + "/" + name, std::ios::binary) << content;
  }
  static std::string shard(const std::string& tensor) {
    return file_of("{\"" + tensor + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  }
  void write_index(const std::string& entries) const {
    write("model.safetensors.index.json", R"({"metadata":{"total_size":8},"weight_map":{)" + entries + "}}");
  }
  [[nodiscard]] std::string error() const {
    const auto checkpoint = SafetensorsCheckpoint::open(directory_);
    if (checkpoint.ok()) return "";
    EXPECT_EQ(checkpoint.status().code(), StatusCode::kInvalidFile);
    EXPECT_THAT(checkpoint.status().message(), StartsWith(directory_));
    return checkpoint.status().message();
  }

  testing::TempFolder folder_;
  std::string directory_ = folder_.path();
};

TEST_F(CheckpointTest, OneFile) {
  write("model.safetensors", shard("a"));
  const auto in_directory = SafetensorsCheckpoint::open(directory_);
  ASSERT_TRUE(in_directory.ok()) << in_directory.status().message();
  EXPECT_NE(in_directory->find("a"), nullptr);
  EXPECT_EQ(in_directory->find("b"), nullptr);
  EXPECT_TRUE(SafetensorsCheckpoint::open(directory_ + "/model.safetensors").ok());
}

TEST_F(CheckpointTest, Shards) {
  write("x-1.safetensors", shard("a"));
  write("x-2.safetensors", shard("b"));
  write_index(R"("a":"x-1.safetensors","b":"x-2.safetensors")");
  const auto checkpoint = SafetensorsCheckpoint::open(directory_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_THAT(checkpoint->tensors(), SizeIs(2));
  EXPECT_EQ(checkpoint->path_of(*checkpoint->find("b")), directory_ + "/x-2.safetensors");
}

TEST_F(CheckpointTest, RefusesBrokenSets) {
  EXPECT_THAT(error(), HasSubstr("is a directory without model.safetensors"));
  for (const char* name : {"x.ckpt", "pytorch_model.bin", "pytorch_model-00002-of-00002.bin"}) {
    write(name, "PK");
    EXPECT_THAT(error(), HasSubstr(fmt::format("has no model.safetensors, only {}: a Python program's pickle", name)));
    EXPECT_THAT(error(), HasSubstr(fmt::format("from_pretrained('{}').save_pretrained(", directory_)));
    std::filesystem::remove(directory_ + "/" + name);
  }
  write("x-1.safetensors", shard("a"));
  write("x-2.safetensors", shard("a"));
  const auto error_with = [&](const std::string& entries) {
    write_index(entries);
    return error();
  };
  EXPECT_THAT(error_with(""), HasSubstr("need a file's name, not an object (key 'weight_map')"));
  EXPECT_THAT(error_with(R"("a":"../x-1.safetensors")"),
              AllOf(HasSubstr("'../x-1.safetensors'"), HasSubstr("no name")));
  EXPECT_THAT(error_with(R"("a":"/x-1.safetensors")"), HasSubstr("no name of a file beside the index"));
  EXPECT_THAT(error_with(R"("a":"..")"), HasSubstr("no name of a file beside the index"));
  EXPECT_THAT(error_with(R"("a":"")"), HasSubstr("no name of a file beside the index"));
  EXPECT_THAT(error_with(R"("a":5)"), HasSubstr("need a file's name, not a number (key 'weight_map.a')"));
  EXPECT_THAT(error_with(R"("a":"x-3.safetensors")"), HasSubstr("x-3.safetensors: cannot open"));
  EXPECT_THAT(error_with(R"("a":"x-1.safetensors","b":"x-2.safetensors")"), HasSubstr("is in " + directory_));
  EXPECT_THAT(error_with(R"("b":"x-1.safetensors")"), HasSubstr("x-1.safetensors does not hold the tensor (key"));
  write("model.safetensors.index.json", "{}");
  EXPECT_THAT(error(), HasSubstr("names no tensor"));
  write("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"b\"");
  EXPECT_THAT(error(), HasSubstr("(at byte 22)"));
}

}  // namespace
}  // namespace bass
