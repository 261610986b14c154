// The folder for what BASS keeps between runs: models and measurements.
#pragma once

#include <string>

#include "bass/status.h"

namespace bass {

/// HOME, or where that is not set what the system knows of the user; "/" if it knows nothing.
std::string home_folder();

/// ${XDG_CACHE_HOME:-~/.cache}/bass, without checking that it exists.
std::string cache_folder();

/// Makes the folder and its parents. Error kInvalidArgument names the folder and the reason.
Status make_cache_folder();

}  // namespace bass
