// What steps cost, kept between runs, so that a new one need not try step sizes that are known.
#pragma once

#include <string>

#include "speculation/step_costs.h"

namespace bass {

/// The file of one model on one machine. key: everything that costs depend on, as text; it is compared when the file is
/// read.
std::string kept_costs_path(const std::string& folder, const std::string& key);

/// What the file has for the key; nothing of a file that is missing, damaged or of another key. Entries count as little
/// as a few measurements: the machine may be slower or faster today.
StepCosts read_kept_costs(const std::string& path, const std::string& key);

/// Replaces the file. Sizes of steps that were not measured in this run stay in it, brought to how fast the machine is
/// now: another program may have measured them meanwhile. Nothing happens where it cannot be written: costs are learnt
/// again.
void keep_costs(const StepCosts& costs, const std::string& path, const std::string& key);

}  // namespace bass
