// Cuts text into the pieces within which BPE merges.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bass/status.h"

struct pcre2_real_code_8;

namespace bass {

/// The rules that a vocabulary names as its `pre`. Thread-safe after construction.
class PreTokenizer {
 public:
  /// Error: rules that BASS does not know; the message lists those it knows.
  static Result<PreTokenizer> create(std::string_view rules);

  /// End of each piece, ascending; pieces are not empty and cover `text`. A byte that is not part of valid UTF-8 counts
  /// as a character of its own that is neither letter, digit nor space. At most 2^31 - 1 bytes.
  [[nodiscard]] Result<std::vector<uint32_t>> split(std::string_view text) const;

 private:
  explicit PreTokenizer(std::shared_ptr<const pcre2_real_code_8> pattern) : pattern_(std::move(pattern)) {}

  std::shared_ptr<const pcre2_real_code_8> pattern_;
};

}  // namespace bass
