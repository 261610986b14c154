// What JSON Schema's "format" says of strings.
#pragma once

#include <string>
#include <string_view>

namespace bass {

/// The pattern of the format's strings; empty: the format is not known, and an annotation only.
/// Narrower than the standards where these are odd: no leap seconds, no quoted or internationalized names in an email,
/// no IPv6 address as the host of a uri, hostnames of at most three labels, or eight of up to 30 characters, numbers of
/// up to six digits in durations.
std::string pattern_of_format(std::string_view format);

}  // namespace bass
