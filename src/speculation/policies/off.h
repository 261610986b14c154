// `off`: regular decoding, which is speculation with nothing drafted.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

extern const DraftLengthPolicy kOffPolicy;

}  // namespace bass
