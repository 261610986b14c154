// The groups of filters.
#pragma once

#include <string_view>

#include "text/jinja/methods.h"

namespace bass::jinja {

NativeFunction find_text_filter(std::string_view name);
NativeFunction find_number_filter(std::string_view name);
NativeFunction find_list_filter(std::string_view name);
NativeFunction find_selecting_filter(std::string_view name);

}  // namespace bass::jinja
