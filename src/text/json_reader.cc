#include "text/json_reader.h"

#include <fmt/format.h>

#include "base/check.h"

namespace bass {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxValues = 1 << 20;

/// What nlohmann's parser calls: it keeps no tree itself, so depth and number of values are bounded before anything
/// grows.
class Handler {
 public:
  explicit Handler(TokenizerJson& out) : out_(out) {}

  // The parser's names and types.
  bool null() { return value(nullptr); }
  bool boolean(bool v) { return value(v); }
  bool number_integer(int64_t v) { return number(static_cast<double>(v), v); }
  bool number_unsigned(uint64_t v) {
    // Numbers that no id can be become one that no vocabulary has.
    return number(static_cast<double>(v), v > INT64_MAX ? INT64_MAX : static_cast<int64_t>(v));
  }
  bool number_float(double v, const std::string& /*text*/) {
    if (list_ == List::kVocab && is_object_) return fail("model.vocab: an id is no whole number");
    return list_ == List::kNone ? value(v) : number(v, 0);
  }
  bool string(std::string& v);
  bool binary(nlohmann::json::binary_t& /*v*/) { return false; }
  bool start_object(size_t /*n*/) { return open(nlohmann::json::object(), true); }
  bool start_array(size_t /*n*/) { return open(nlohmann::json::array(), false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& v);
  bool parse_error(size_t byte, const std::string& /*token*/, const nlohmann::json::exception& /*error*/) {
    return fail(fmt::format("not valid JSON (at byte {})", byte));
  }

  [[nodiscard]] Status status() const { return invalid_file(message_.empty() ? "not valid JSON" : message_); }

 private:
  enum class List : uint8_t { kNone, kVocab, kMerges };

  bool fail(std::string message) {
    if (message_.empty()) message_ = std::move(message);
    return false;
  }
  bool wrong_list() {
    return fail(list_ == List::kVocab ? "model.vocab is neither an object of ids nor a list of [text, score]"
                                      : "model.merges is no list of pairs");
  }

  /// Puts a value into the tree.
  bool value(nlohmann::json v) {
    if (list_ != List::kNone) return wrong_list();
    if (++n_values_ > kMaxValues) return fail(fmt::format("more than {} values", kMaxValues));
    place(std::move(v));
    return true;
  }
  nlohmann::json* place(nlohmann::json v) {
    if (open_.empty()) {
      out_.root = std::move(v);
      return &out_.root;
    }
    nlohmann::json& parent = *open_.back();
    if (parent.is_array()) return &parent.get_ref<nlohmann::json::array_t&>().emplace_back(std::move(v));
    nlohmann::json& slot = parent[key_];
    slot = std::move(v);
    return &slot;
  }

  bool number(double real, int64_t whole);
  bool open(nlohmann::json container, bool is_object);
  bool close();
  bool end_pair();

  TokenizerJson& out_;
  std::string message_;
  std::vector<nlohmann::json*>
      open_;  // containers of the tree that are being read; references into it stay valid: see open()
  std::string key_;
  std::vector<std::string> path_;  // keys of the objects that are open
  size_t n_values_ = 0;
  // Within a list.
  List list_ = List::kNone;
  bool is_object_ = false;
  size_t list_depth_ = 0;  // 1: in the list, 2: in one of its pairs
  std::vector<std::string> pair_;
  bool has_score_ = false;
  double score_ = 0;
};

bool Handler::key(std::string& v) {
  if (list_ == List::kNone) {
    if (open_.back()->contains(v)) return fail(fmt::format("the key '{}' is there twice", v.substr(0, 80)));
    key_ = std::move(v);
    return true;
  }
  if (list_depth_ != 1 || !is_object_) return wrong_list();
  key_ = std::move(v);
  return true;
}

bool Handler::string(std::string& v) {
  if (list_ == List::kNone) return value(std::move(v));
  if (list_ == List::kMerges && list_depth_ == 1) {
    out_.merges.push_back(std::move(v));
    return true;
  }
  if (list_depth_ != 2 || pair_.size() == 2 || has_score_) return wrong_list();
  pair_.push_back(std::move(v));
  return true;
}

bool Handler::number(double real, int64_t whole) {
  if (list_ == List::kNone) return value(whole);
  if (list_ == List::kVocab && is_object_ && list_depth_ == 1) {
    out_.vocab.push_back({std::move(key_), whole, 0});
    return true;
  }
  if (list_ != List::kVocab || list_depth_ != 2 || pair_.size() != 1 || has_score_) return wrong_list();
  score_ = real;
  has_score_ = true;
  return true;
}

bool Handler::open(nlohmann::json container, bool is_object) {
  if (list_ != List::kNone) {
    if (list_depth_ != 1 || is_object || is_object_) return wrong_list();
    list_depth_ = 2;
    pair_.clear();
    has_score_ = false;
    return true;
  }
  if (open_.size() >= kMaxDepth) return fail(fmt::format("nested deeper than {} levels", kMaxDepth));
  const bool is_in_model = open_.size() == 2 && path_.size() == 2 && path_.back() == "model";
  if (is_in_model && (key_ == "vocab" || (key_ == "merges" && !is_object))) {
    if (!value(nullptr)) return false;
    list_ = key_ == "vocab" ? List::kVocab : List::kMerges;
    is_object_ = is_object;
    list_depth_ = 1;
    if (list_ == List::kVocab) out_.is_list = !is_object;
    return true;
  }
  if (++n_values_ > kMaxValues) return fail(fmt::format("more than {} values", kMaxValues));
  // A parent gets no other child while one of its children is open, so that the pointer stays valid.
  path_.push_back(key_);
  open_.push_back(place(std::move(container)));
  return true;
}

bool Handler::close() {
  if (list_ == List::kNone) {
    open_.pop_back();
    path_.pop_back();
    return true;
  }
  if (--list_depth_ == 1) return end_pair();
  list_ = List::kNone;
  return true;
}

bool Handler::end_pair() {
  if (list_ == List::kVocab) {
    if (pair_.size() != 1 || !has_score_) return wrong_list();
    const auto place_in_list = static_cast<int64_t>(out_.vocab.size());
    out_.vocab.push_back({std::move(pair_[0]), place_in_list, score_});
    return true;
  }
  if (pair_.size() != 2 || has_score_) return wrong_list();
  for (const std::string& part : pair_) {
    if (part.find(' ') != part.npos) return fail("model.merges: a token with a space in it is not supported");
  }
  out_.merges.push_back(fmt::format("{} {}", pair_[0], pair_[1]));
  return true;
}

}  // namespace

Result<TokenizerJson> read_tokenizer_json(std::string_view text) {
  // The parser would take a NUL for the end.
  if (const size_t at = text.find('\0'); at != text.npos) {
    return invalid_file(fmt::format("not valid JSON (at byte {})", at));
  }
  TokenizerJson out;
  Handler handler(out);
  try {
    if (!nlohmann::json::sax_parse(text, &handler)) return handler.status();
  } catch (const nlohmann::json::exception&) {
    return handler.status();
  }
  return out;
}

Result<nlohmann::json> read_small_json(std::string_view text) {
  BASS_ASSIGN_OR_RETURN(TokenizerJson json, read_tokenizer_json(text));
  return std::move(json.root);
}

}  // namespace bass
