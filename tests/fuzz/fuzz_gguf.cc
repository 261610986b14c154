// A GGUF file's header and everything that is read through its getters.
#include <cstdint>
#include <string>
#include <utility>

#include "base/check.h"
#include "io/gguf.h"
#include "model/architecture.h"
#include "model/decoder_weights.h"
#include "model/file_checks.h"
#include "model/gguf_vocab.h"

namespace {

/// The getters, for each key: they decode what the parser only measured.
void read_all(const bass::GgufFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    (void)file.get_u32(key);
    (void)file.get_f32(key);
    (void)file.get_bool_or(key, false);
    (void)file.get_string(key);
    (void)file.get_string_array(key);
    (void)file.get_int_array(key);
    (void)file.get_float_array(key);
  }
  (void)bass::check_texts(file);
  (void)bass::load_vocab(file);
  const auto architecture = bass::find_architecture(file);
  if (!architecture.ok()) return;
  const auto config = architecture.value()->read_config(file);
  if (config.ok()) (void)bass::find_decoder_weights(file, config.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const char*>(data);
  bass::Result<bass::GgufFile> file = bass::GgufFile::assemble("fuzz.gguf", std::string(bytes, size), {});
  if (file.ok()) {
    read_all(file.value());
  } else {
    BASS_CHECK(file.status().message().rfind("fuzz.gguf: ", 0) == 0);
  }
  return 0;
}
