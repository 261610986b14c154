// Where the tests' data lie.
#pragma once

#include <string>

namespace bass::testing {

/// The model that tests take where any would do: grouped queries, tied embeddings, float32.
constexpr const char* kTinyModel = "tiny_gqa_tied_f32";

inline std::string data_file(const std::string& name) { return std::string(BASS_TEST_DATA) + "/" + name; }
inline std::string tiny_model(const std::string& name) { return data_file("tiny/" + name + ".gguf"); }

}  // namespace bass::testing
