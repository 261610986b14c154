// A safetensors file's header; the same text as config.json and index.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/json_leaves.h"
#include "io/safetensors.h"

namespace {

/// What the parser promises: tensors cover the data and have the bytes that their shapes need.
void check_promises(const std::vector<bass::SafetensorsTensor>& tensors, size_t size) {
  size_t n_data = 0;
  for (const bass::SafetensorsTensor& tensor : tensors) {
    size_t n_bytes = static_cast<size_t>(tensor.type->n_bytes);
    for (const int64_t len : tensor.shape) n_bytes *= static_cast<size_t>(len);
    BASS_CHECK(n_bytes == tensor.data.size());
    n_data += n_bytes;
  }
  BASS_CHECK(n_data <= size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto tensors = bass::parse_safetensors({bytes, size}, "fuzz.safetensors");
  if (tensors.ok()) {
    check_promises(tensors.value(), size);
  } else {
    BASS_CHECK(tensors.status().message().rfind("fuzz.safetensors: ", 0) == 0);
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)bass::read_json_leaves(text, {"fuzz.json", 0}, [](auto, const auto&) { return bass::ok_status(); });
  return 0;
}
