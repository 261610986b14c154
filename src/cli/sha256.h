// SHA-256 by OpenSSL.
#pragma once

#include <openssl/evp.h>

#include <memory>
#include <span>
#include <string>

namespace bass {

class Sha256 {
 public:
  Sha256();
  void update(std::span<const char> bytes);
  /// Lower-case hexadecimal digits. Call once.
  std::string finish();

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace bass
