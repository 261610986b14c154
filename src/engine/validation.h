// Checks of options and requests, with messages that name the option and the mend.
#pragma once

#include "bass/engine.h"

namespace bass {

Status validate_options(const EngineOptions& options);
Status validate_sampling(const SamplingOptions& sampling, int vocab_size);
/// All that can be said of a request without its tokens.
Status validate_request(const Request& request, bool has_draft, int vocab_size);

}  // namespace bass
