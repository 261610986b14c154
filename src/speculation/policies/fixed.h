// `fixed:K`: always K tokens.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

extern const DraftLengthPolicy kFixedPolicy;

}  // namespace bass
