// Hugging Face checkpoints on tiny models, written as transformers saves them
// (tests/goldens/make_checkpoint_goldens.py): the files themselves would be large, so their weights come from a hash.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/byte_vocab.h"
#include "tensor/dtype.h"

namespace bass::testing {

inline constexpr int kCheckpointVocabSize = 288;

inline const nlohmann::json& checkpoint_goldens() {
  static const nlohmann::json models = [] {
    std::ifstream file(std::string(BASS_TEST_DATA) + "/checkpoint_goldens.json");
    EXPECT_TRUE(file.good());
    return nlohmann::json::parse(file)["models"];
  }();
  return models;
}

inline std::string fnv1a(std::string_view bytes) {
  uint64_t value = 0xCBF29CE484222325U;
  for (const char byte : bytes) value = (value ^ static_cast<uint8_t>(byte)) * 0x100000001B3U;
  return fmt::format("{:016x}", value);
}

/// The goldens' `mixed`.
inline uint32_t mixed_bits(uint32_t x) {
  x = (x ^ x >> 16U) * 0x85EBCA6BU;
  x = (x ^ x >> 13U) * 0xC2B2AE35U;
  return x ^ x >> 16U;
}

/// The goldens' `weights_of`, as the file has them. tensor: [name, shape, centre, step] of a golden.
inline std::string checkpoint_weights(const nlohmann::json& golden, size_t tensor_idx) {
  constexpr uint32_t kMaxSteps = 31;
  const nlohmann::json& tensor = golden["tensors"][tensor_idx];
  const std::string dtype = golden["dtype"];
  uint32_t n_elements = 1;
  for (const auto& size : tensor[1]) n_elements *= size.get<uint32_t>();
  const uint32_t start = mixed_bits(1024 * golden["seed"].get<uint32_t>() + static_cast<uint32_t>(tensor_idx));
  const double centre = tensor[2], step = tensor[3];
  std::string bytes;
  const auto append = [&bytes](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  for (uint32_t i = 0; i < n_elements; ++i) {
    const double n_steps = static_cast<double>(mixed_bits(i + start) % (2 * kMaxSteps + 1)) - kMaxSteps;
    const auto value = static_cast<float>(centre + n_steps * step);
    if (dtype == "F32") append(value);
    if (dtype == "F16") append(f32_to_f16(value));
    if (dtype == "BF16") append(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16U));
  }
  return bytes;
}

/// A safetensors file of some of a golden's tensors.
inline std::string safetensors_bytes(const nlohmann::json& golden, const std::vector<size_t>& tensor_idxs) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const size_t i : tensor_idxs) {
    const size_t begin = data.size();
    data += checkpoint_weights(golden, i);
    header[golden["tensors"][i][0].get<std::string>()] = {
        {"dtype", golden["dtype"]}, {"shape", golden["tensors"][i][1]}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t len = text.size();
  return std::string(reinterpret_cast<const char*>(&len), sizeof(len)) + text + data;
}

/// A tokenizer.json of as many tokens as the models have: bytes, and control tokens behind them.
inline std::string checkpoint_tokenizer() {
  std::vector<std::string> controls;
  for (int i = 256; i < kCheckpointVocabSize; ++i) controls.push_back(fmt::format("<{}>", i));
  const VocabData vocab = make_byte_vocab({}, controls);
  nlohmann::json json{{"model", {{"type", "BPE"}, {"merges", nlohmann::json::array()}}},
                      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
                      {"decoder", {{"type", "ByteLevel"}}},
                      {"added_tokens", nlohmann::json::array()}};
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    json["model"]["vocab"][vocab.tokens[id]] = id;
    if (id >= 256) json["added_tokens"].push_back({{"id", id}, {"content", vocab.tokens[id]}, {"special", true}});
  }
  return json.dump();
}

/// The directory that a golden's model is saved in.
inline void write_checkpoint(const nlohmann::json& golden, const std::string& directory) {
  std::vector<size_t> all(golden["tensors"].size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::ofstream(directory + "/config.json") << golden["config"];
  std::ofstream(directory + "/tokenizer.json") << checkpoint_tokenizer();
  std::ofstream(directory + "/model.safetensors", std::ios::binary) << safetensors_bytes(golden, all);
}

}  // namespace bass::testing
