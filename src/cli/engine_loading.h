// What the commands that run a model share.
#pragma once

#include <memory>
#include <string>

#include "bass/engine.h"

namespace bass {

/// Resolves model names and loads the engine.
Result<std::unique_ptr<Engine>> load_engine(EngineOptions options);

}  // namespace bass
