#include "text/grammar/json_formats.h"

#include <fmt/format.h>

namespace bass {
namespace {

// RFC 3339, with the lengths of months and the leap years.
std::string date() {
  const std::string_view long_month = "(0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])";
  const std::string_view short_month = "(0[469]|11)-(0[1-9]|[12]\\d|30)";
  const std::string_view february = "02-(0[1-9]|1\\d|2[0-8])";
  const std::string_view leap_year = "(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)";
  return fmt::format("(\\d\\d\\d\\d-({}|{}|{})|{}-02-29)", long_month, short_month, february, leap_year);
}

std::string time() {
  const std::string_view hour_minute = "([01]\\d|2[0-3]):[0-5]\\d";
  return fmt::format("{0}:[0-5]\\d(\\.\\d{{1,9}})?(Z|[+-]{0})", hour_minute);
}

// RFC 5321, dot-atoms.
std::string email() {
  const std::string_view atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string_view label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return fmt::format("{0}(\\.{0})*@{1}(\\.{1})*", atom, label);
}

std::string ipv4() {
  const std::string_view octet = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return fmt::format("{0}(\\.{0}){{3}}", octet);
}

// RFC 3986. A path without a host in front must not begin with two slashes.
std::string uri() {
  const std::string_view plain = "[A-Za-z0-9._~!$&'()*+,;=-]";
  const std::string_view escape = "%[0-9A-Fa-f]{2}";
  const std::string segment_char = fmt::format("({}|[:@]|{})", plain, escape);
  const std::string authority = fmt::format("((({0}|:|{1})*@)?({0}|{1})*(:\\d*)?)", plain, escape);
  const std::string path = fmt::format("(//{0}(/{1}*)*|/?({1}+(/{1}*)*)?)", authority, segment_char);
  return fmt::format("[A-Za-z][A-Za-z0-9+.-]*:{0}(\\?({1}|[/?])*)?(#({1}|[/?])*)?", path, segment_char);
}

}  // namespace

std::string pattern_of_format(std::string_view format) {
  if (format == "date") return date();
  if (format == "time") return time();
  if (format == "date-time") return date() + "T" + time();
  if (format == "uuid") return "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
  if (format == "email") return email();
  if (format == "ipv4") return ipv4();
  if (format == "uri") return uri();
  return "";
}

}  // namespace bass
