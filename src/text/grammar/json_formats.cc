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

// RFC 3339, appendix A: a unit follows the next larger one, weeks stand alone.
std::string duration() {
  const std::string_view number = "\\d{1,6}";
  const std::string time = fmt::format("T({0}H({0}M({0}S)?)?|{0}M({0}S)?|{0}S)", number);
  const std::string date = fmt::format("({0}Y({0}M({0}D)?)?|{0}M({0}D)?|{0}D)", number);
  return fmt::format("P({0}({1})?|{1}|{2}W)", date, time, number);
}

/// A part of a domain's name, of at most so many characters.
std::string label(int max_len) { return fmt::format("[A-Za-z0-9]([A-Za-z0-9-]{{0,{}}}[A-Za-z0-9])?", max_len - 2); }

// RFC 1123. All of it has at most 253 characters.
std::string hostname() { return fmt::format("({0}(\\.{0}){{0,2}}|{1}(\\.{1}){{3,7}})", label(63), label(30)); }

// RFC 5321, dot-atoms.
std::string email() {
  const std::string_view atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  return fmt::format("{0}(\\.{0})*@{1}(\\.{1})*", atom, label(63));
}

std::string ipv4() {
  const std::string_view octet = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return fmt::format("{0}(\\.{0}){{3}}", octet);
}

// RFC 3986: eight groups, the last two also as an IPv4 address, of which "::" stands for one or more.
std::string ipv6() {
  constexpr int kGroups = 6;  // in front of the last two
  const std::string_view group = "[0-9A-Fa-f]{1,4}";
  const std::string last = fmt::format("({0}:{0}|{1})", group, ipv4());
  std::string ways = fmt::format("({}:){{{}}}{}", group, kGroups, last);
  for (int n_before = 0; n_before <= kGroups + 1; ++n_before) {
    const std::string before = n_before == 0 ? "" : fmt::format("({0}(:{0}){{0,{1}}})?", group, n_before - 1);
    const int n_behind = kGroups - 1 - n_before;
    const std::string behind = n_behind > 0     ? fmt::format("({}:){{{}}}{}", group, n_behind, last)
                               : n_behind == 0  ? last
                               : n_behind == -1 ? std::string(group)
                                                : "";
    ways += fmt::format("|{}::{}", before, behind);
  }
  return ways;
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
  if (format == "duration") return duration();
  if (format == "hostname") return hostname();
  if (format == "ipv4") return ipv4();
  if (format == "ipv6") return ipv6();
  if (format == "uri") return uri();
  return "";
}

}  // namespace bass
