// Which model a file holds, whatever it is quantised to.
#pragma once

#include <string>

#include "model/model_file.h"

namespace bass {

/// SHA-256 (hexadecimal) of a model's shape and of the vectors that it normalises by: those are kept in float by every
/// file format, and every training moves them. So all quantisations of a model have the same fingerprint, and a model
/// that was trained further has another.
std::string model_fingerprint(const ModelConfig& config, const WeightRefs& weights);

}  // namespace bass
