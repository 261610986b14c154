#include "io/json_leaves.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "io/gguf_format.h"

namespace bass {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64;

/// What the parser calls; false ends the parsing, and `status` says why.
class LeafReader final : public nlohmann::json_sax<Json> {
 public:
  LeafReader(std::string_view text, const JsonPlace& place, const JsonVisitor& visit)
      : text_(text), place_(place), visit_(visit) {}

  [[nodiscard]] const Status& status() const { return status_; }

  bool null() override { return leaf(nullptr); }
  bool boolean(bool value) override { return leaf(value); }
  bool number_integer(number_integer_t value) override { return leaf(value); }
  bool number_unsigned(number_unsigned_t value) override { return leaf(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return leaf(value); }
  bool string(string_t& value) override { return leaf(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // not in JSON texts

  bool start_object(size_t /*n*/) override { return open(true); }
  bool start_array(size_t /*n*/) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    path_.back().key = value;
    open_.back().n_entries = 1;
    if (open_.back().keys.insert(std::move(value)).second) return true;
    return fail_in_key("occurs twice");
  }

  bool parse_error(size_t position, const std::string& token, const Json::exception& error) override {
    const uint64_t at = place_.at + (position > 0 ? position - 1 : 0);
    const bool is_utf8 = std::string_view(error.what()).find("UTF-8") != std::string_view::npos;
    const bool is_range = std::string_view(error.what()).find("number overflow") != std::string_view::npos;
    const std::string what = is_utf8    ? "holds invalid UTF-8"
                             : is_range ? fmt::format("the number {} is too large", gguf_format::in_quotes(token))
                             : position > text_.size()
                                 ? std::string("the JSON text ends too early")
                                 : fmt::format("no valid JSON near {}", gguf_format::in_quotes(token));
    status_ = invalid_file(fmt::format("{}: {} (at byte {})", place_.path, what, at));
    return false;
  }

 private:
  struct Container {
    bool is_object;
    size_t n_entries = 0;  // an object's: 1 for any
    std::unordered_set<std::string> keys;
  };

  bool fail_in_key(std::string_view what) {
    status_ = invalid_file(
        fmt::format("{}: {} (key {})", place_.path, what, gguf_format::in_quotes(joined_json_path(path_))));
    return false;
  }

  /// A value begins: in an array its place is the path's end.
  void name_entry() {
    if (open_.empty() || open_.back().is_object) return;
    path_.back() = {std::to_string(open_.back().n_entries++), true};
  }

  bool leaf(const JsonLeaf& value) {
    if (open_.empty()) return fail_no_object();
    name_entry();
    status_ = visit_(path_, value);
    return status_.ok();
  }

  bool open(bool is_object) {
    if (open_.empty() && !is_object) return fail_no_object();
    name_entry();
    if (open_.size() == kMaxDepth) return fail_in_key(fmt::format("is nested deeper than {}", kMaxDepth));
    open_.push_back({is_object, 0, {}});
    path_.emplace_back();
    return true;
  }

  bool close() {
    const bool is_object = open_.back().is_object;
    const bool is_empty = open_.back().n_entries == 0;
    open_.pop_back();
    path_.pop_back();
    if (!is_empty || open_.empty()) return true;
    status_ = visit_(path_, JsonEmpty{is_object});
    return status_.ok();
  }

  bool fail_no_object() {
    status_ = invalid_file(fmt::format("{}: is no JSON object (at byte {})", place_.path, place_.at));
    return false;
  }

  std::string_view text_;
  const JsonPlace& place_;
  const JsonVisitor& visit_;
  std::vector<Container> open_;
  std::vector<JsonStep> path_;  // as long as open_: what is read now in each
  Status status_;
};

}  // namespace

std::string_view json_kind(const JsonLeaf& leaf) {
  constexpr std::string_view kKinds[] = {"null",     "a boolean",  "a negative number",
                                         "a number", "a fraction", "a string"};
  if (const auto* empty = std::get_if<JsonEmpty>(&leaf)) return empty->is_object ? "an object" : "an array";
  return kKinds[leaf.index()];
}

Status read_json_leaves(std::string_view text, const JsonPlace& place, const JsonVisitor& visit) {
  LeafReader reader(text, place, visit);
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) return reader.status();
  return ok_status();
}

std::string joined_json_path(std::span<const JsonStep> path) {
  std::string joined;
  for (const JsonStep& step : path) joined += (joined.empty() ? "" : ".") + step.key;
  return joined;
}

}  // namespace bass
