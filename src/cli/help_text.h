// What --help prints.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace bass {

/// Makes the help of a program, and of the commands that it gets later, fit a terminal of 100 columns.
void set_help_format(CLI::App* app);

std::string help_text(const CLI::App& app);

}  // namespace bass
