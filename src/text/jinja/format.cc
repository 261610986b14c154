#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/format.h"
#include "text/jinja/operators.h"

namespace bass::jinja {
namespace {

/// One run of '%' formatting.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& rt, std::string_view text, const Value& argument)
      : rt_(rt), rest_(text), argument_(argument) {
    if (argument.is(Kind::kTuple)) positional_ = argument.as<Sequence>().items;
    if (!argument.is(Kind::kTuple)) positional_ = {argument};
  }

  Value run() {
    std::string out;
    rt_.spend_on_text(rest_.size());
    while (!rest_.empty() && rt_.ok()) {
      const size_t plain = std::min(rest_.find('%'), rest_.size());
      out += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (!rest_.empty()) out += field();
      if (!rt_.has_room(std::ssize(out))) return {};
    }
    const bool is_mapping = argument_.is(Kind::kDict);
    if (n_used_ < positional_.size() && !is_mapping) rt_.fail("not all arguments converted during string formatting");
    return rt_.string(std::move(out));
  }

 private:
  std::string field() {
    rest_.remove_prefix(1);
    std::optional<Value> named;
    if (rest_.starts_with('(')) {
      const size_t end = std::min(rest_.find(')'), rest_.size() - 1);
      named = item(rt_, argument_, rt_.string(std::string(rest_.substr(1, end - 1))));
      rest_.remove_prefix(end + 1);
    }
    FieldFormat format = flags();
    format.width = take_number(&rest_, 0);
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      format.precision = take_number(&rest_, 0);
    }
    if (rest_.empty() || format.width > kMaxFieldWidth || format.precision > kMaxFieldWidth)
      return fail("incomplete format");
    format.type = rest_.front();
    rest_.remove_prefix(1);
    if (format.type == '%') return "%";
    if (!named.has_value() && n_used_ == positional_.size()) return fail("not enough arguments for format string");
    return written(named.has_value() ? *named : positional_[n_used_++], format);
  }

  FieldFormat flags() {
    FieldFormat format;
    format.align = '>';
    for (; !rest_.empty(); rest_.remove_prefix(1)) {
      const char c = rest_.front();
      if (c == '-') {
        format.align = '<';
        format.fill = ' ';
      } else if (c == '0' && format.align != '<') {
        format.align = '=';
        format.fill = '0';
      } else if (c == '+' || c == ' ') {
        format.sign = c;
      } else if (c == '#') {
        format.is_alternate = true;
      } else if (c != '0') {
        break;
      }
    }
    return format;
  }

  std::string written(const Value& value, FieldFormat format) {
    if (format.type == 'r') {
      std::string text;
      append_repr(rt_, value, &text);
      format.type = 's';
      return format_field(rt_, rt_.string(text), format);
    }
    if (format.type == 'i' || format.type == 'u') format.type = 'd';
    if (std::string_view("sdfegxXo").find(format.type) == std::string_view::npos)
      return fail("unsupported format character");
    if (format.type == 's' && format.align == '=') format.align = '>';
    if (format.type == 's') format.fill = ' ';
    const bool truncates = format.type == 'd' && value.is(Kind::kFloat) && std::abs(value.number()) < 9e18;
    return format_field(rt_, truncates ? Value::of_int(static_cast<int64_t>(value.number())) : value, format);
  }

  std::string fail(std::string_view message) {
    rt_.fail(message);
    return {};
  }

  Runtime& rt_;
  std::string_view rest_;
  const Value& argument_;
  std::vector<Value> positional_;
  size_t n_used_ = 0;
};

/// "0", "name", "" (the next one), each with .attributes and [items] behind it.
Value find_field(Runtime& rt, std::string_view name, const Arguments& arguments, size_t* n_used) {
  std::string_view first = name.substr(0, name.find_first_of(".["));
  name.remove_prefix(first.size());
  Value value;
  if (first.empty() || is_digit(first.front())) {
    const size_t idx = first.empty() ? (*n_used)++ : static_cast<size_t>(take_number(&first, 0));
    if (idx >= arguments.positional.size()) return rt.fail("Replacement index out of range");
    value = arguments.positional[idx];
  } else {
    const auto found = std::ranges::find_if(arguments.named, [&](const auto& a) { return a.first == first; });
    if (found == arguments.named.end()) return rt.fail(fmt::format("the format has no argument '{}'", first));
    value = found->second;
  }
  while (!name.empty() && rt.ok()) {
    const bool is_item = name.front() == '[';
    const size_t end = std::min(is_item ? name.find(']') : name.find_first_of(".[", 1), name.size());
    std::string_view key = name.substr(1, end - 1);
    name.remove_prefix(std::min(end + (is_item ? 1 : 0), name.size()));
    const bool is_number = is_item && !key.empty() && is_digit(key.front());
    value = !is_item ? attribute(rt, value, key)
                     : item(rt, value, is_number ? Value::of_int(take_number(&key, 0)) : rt.string(std::string(key)));
  }
  return value;
}

std::string brace_field(Runtime& rt, std::string_view field, const Arguments& arguments, size_t* n_used) {
  const size_t colon = field.find(':');
  std::string_view name = field.substr(0, colon);
  const std::string_view spec = colon == std::string_view::npos ? "" : field.substr(colon + 1);
  const size_t bang = name.find('!');
  const bool wants_repr = bang != std::string_view::npos && name.substr(bang) == "!r";
  Value value = find_field(rt, name.substr(0, bang), arguments, n_used);
  if (bang != std::string_view::npos) {
    std::string text;
    if (wants_repr) append_repr(rt, value, &text);
    value = rt.string(wants_repr ? text : to_text(rt, value));
  }
  const std::optional<FieldFormat> format = parse_field_format(spec);
  if (!format.has_value()) {
    rt.fail(fmt::format("unsupported format '{}'", spec));
    return {};
  }
  return format_field(rt, value, *format);
}

}  // namespace

Value format_percent(Runtime& rt, std::string_view text, const Value& argument) {
  return PercentFormatter(rt, text, argument).run();
}

Value format_braces(Runtime& rt, std::string_view text, const Arguments& arguments) {
  std::string out;
  size_t n_used = 0;
  rt.spend_on_text(text.size());
  while (!text.empty() && rt.has_room(std::ssize(out))) {
    const size_t plain = std::min(text.find_first_of("{}"), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const bool is_escaped = text.size() > 1 && text[1] == text[0];
    const size_t end = text.find('}');
    if (is_escaped) {
      out += text[0];
      text.remove_prefix(2);
    } else if (text[0] == '}' || end == std::string_view::npos) {
      return rt.fail("a single brace in a format string");
    } else {
      out += brace_field(rt, text.substr(1, end - 1), arguments, &n_used);
      text.remove_prefix(end + 1);
    }
  }
  return rt.string(std::move(out));
}

}  // namespace bass::jinja
