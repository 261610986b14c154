#include "base/digest.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace bass {

Digest::Digest(const EVP_MD* kind) : context_(EVP_MD_CTX_new()) {
  BASS_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), kind, nullptr) == 1);
}

void Digest::update(std::span<const char> bytes) {
  BASS_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int n_bytes = 0;
  BASS_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &n_bytes) == 1);
  std::string text;
  for (unsigned int i = 0; i < n_bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace bass
