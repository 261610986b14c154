// What is wrong with a file's contents rather than with its layout.
#pragma once

#include <cstdint>
#include <string>

#include "base/thread_team.h"
#include "bass/status.h"
#include "io/gguf.h"

namespace bass {

/// Keys, names and texts are UTF-8. Tokens may be any bytes.
Status check_texts(const GgufFile& gguf);

/// Every token has a row of the embedding; there may be more rows. path: for messages.
Status check_vocab_size(const std::string& path, int64_t n_tokens, int64_t n_rows);

/// All weights are finite. Reads every tensor.
Status check_weights(const GgufFile& gguf, ThreadTeam* team);

}  // namespace bass
