// What is wrong with a file's contents rather than with its layout.
#pragma once

#include "base/thread_team.h"
#include "bass/status.h"
#include "io/gguf.h"

namespace bass {

/// Keys, names and texts are UTF-8. Tokens may be any bytes.
Status check_texts(const GgufFile& gguf);

/// All weights are finite. Reads every tensor.
Status check_weights(const GgufFile& gguf, ThreadTeam* team);

}  // namespace bass
