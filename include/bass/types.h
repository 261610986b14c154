// Small types that the whole public interface shares.
#pragma once

#include <cstdint>

namespace bass {

/// A token of the main model's vocabulary: 0 <= id < vocabulary size.
using TokenId = int32_t;

/// How drafted tokens are verified. All rules are lossless (docs/architecture.md, "Exactness").
enum class VerifyRule : uint8_t {
  kRejection,  ///< accept with min(1, p/q), then resample from (p - q)+: speculative sampling (arXiv 2302.01318)
  kMatch,      ///< accept while draft and main model choose the same token under the same Gumbel noise
  kBlock,      ///< judge a round's drafted tokens together: block verification (arXiv 2403.10444)
};

}  // namespace bass
