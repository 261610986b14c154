// What CLI11 checks of a command's own options, said as the options table says it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>

namespace bass {

/// "--rounds: 0: must be a whole number from 1 to 1000"
CLI::Validator whole_number(int64_t min, int64_t max);
/// "--noise: x: must be a number from 0 to 1"
CLI::Validator number_from(double min, double max);
/// "--peak-tops: 0: must be a number > 0"
CLI::Validator positive_number();
/// "--verify: match: must be rejection or block". Names have static storage.
CLI::Validator one_of(std::initializer_list<const char*> names);
/// "--model-name: : must be a text that is not empty"
CLI::Validator not_empty();

}  // namespace bass
