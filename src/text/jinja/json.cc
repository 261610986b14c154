#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace bass::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style) {}

  void write(const Value& value, int level) {
    if (!rt_.spend(1) || !rt_.has_room(std::ssize(out_))) return;  // a list may be in the value many times
    if (value.is_string()) {
      write_string(value.text());
    } else if (value.is_list_or_tuple()) {
      write_list(value.as<Sequence>().items, level);
    } else if (value.is(Kind::kDict)) {
      write_dict(value.as<Dict>(), level);
    } else if (const std::optional<std::string> word = scalar(value)) {
      out_ += *word;
    } else {
      rt_.fail(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

  std::string take() { return std::move(out_); }

 private:
  static std::optional<std::string> scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is(Kind::kBool)) return value.integer() != 0 ? "true" : "false";
    if (value.is(Kind::kInt)) return fmt::format("{}", value.integer());
    if (!value.is(Kind::kFloat)) return std::nullopt;
    const double number = value.number();
    if (number != number) return "NaN";
    return number - number == 0 ? float_text(number) : number > 0 ? "Infinity" : "-Infinity";
  }

  void break_line(int level) {
    if (!style_.indent.has_value()) return;
    out_ += '\n';
    const int64_t n_bytes = std::ssize(*style_.indent) * level;
    if (!rt_.has_room(std::ssize(out_) + n_bytes)) return;
    for (int i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void write_list(const std::vector<Value>& items, int level) {
    out_ += '[';
    for (size_t i = 0; i < items.size() && rt_.ok(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      break_line(level + 1);
      write(items[i], level + 1);
    }
    if (!items.empty()) break_line(level);
    out_ += ']';
  }

  void write_dict(const Dict& dict, int level) {
    auto entries = dict.entries;
    if (style_.sort_keys) {
      std::ranges::stable_sort(entries,
                               [&](const auto& a, const auto& b) { return compare(rt_, a.first, b.first, "<") < 0; });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size() && rt_.ok(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      break_line(level + 1);
      write_key(entries[i].first);
      out_ += style_.key_separator;
      write(entries[i].second, level + 1);
    }
    if (!entries.empty()) break_line(level);
    out_ += '}';
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.text());
    const std::optional<std::string> word = scalar(key);
    if (!word.has_value()) {
      rt_.fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
      return;
    }
    write_string(*word);
  }

  void write_string(std::string_view text) {
    rt_.spend_on_text(text.size());
    out_ += '"';
    while (!text.empty()) {
      const Utf8Char c = first_utf8_char(text);
      write_character(c.valid ? c.code_point : U'\ufffd', text.substr(0, c.n_bytes));
      text.remove_prefix(c.n_bytes);
    }
    out_ += '"';
  }

  void write_character(char32_t c, std::string_view bytes) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t idx = c < 128 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
    if (idx != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[idx];
    } else if (c < 0x20 || (c > 0x7E && c <= 0xFFFF && style_.ensure_ascii)) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else if (c > 0xFFFF && style_.ensure_ascii) {
      const auto offset = static_cast<unsigned>(c) - 0x10000;  // a pair of UTF-16 surrogates
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
    } else {
      out_ += bytes;
    }
  }

  Runtime& rt_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string to_json(Runtime& rt, const Value& value, const JsonStyle& style) {
  JsonWriter writer(rt, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace bass::jinja
