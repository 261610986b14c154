// SHA-256 and SHA-1 by OpenSSL.
#pragma once

#include <openssl/evp.h>

#include <memory>
#include <span>
#include <string>

namespace bass {

class Digest {
 public:
  static Digest sha256() { return Digest(EVP_sha256()); }
  static Digest sha1() { return Digest(EVP_sha1()); }

  void update(std::span<const char> bytes);
  /// Lower-case hexadecimal digits. Call once.
  std::string finish();

 private:
  explicit Digest(const EVP_MD* kind);

  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace bass
