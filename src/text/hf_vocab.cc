#include "text/hf_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/caught_status.h"
#include "base/check.h"
#include "base/mapped_file.h"
#include "text/json_reader.h"
#include "text/json_rules.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer_json.h"

namespace bass {
namespace {

constexpr size_t kMaxTokenizerBytes = 128 << 20;
constexpr size_t kMaxSmallBytes = 16 << 20;

/// The bytes of a file; they lie in `file`.
Result<std::string_view> open_file(const std::string& path, size_t max_bytes, MappedFile& file) {
  BASS_ASSIGN_OR_RETURN(file, MappedFile::open(path));
  if (file.bytes().size() > max_bytes) {
    return invalid_file(fmt::format("{}: {} bytes, need at most {}", path, file.bytes().size(), max_bytes));
  }
  return std::string_view(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

class Loader {
 public:
  explicit Loader(std::string directory) : directory_(std::move(directory)) {}

  Result<VocabData> run() {
    BASS_RETURN_IF_ERROR(read_tokenizer());
    BASS_RETURN_IF_ERROR(read_small("config.json", [&](const JsonView& json) { return read_ids(json); }));
    BASS_RETURN_IF_ERROR(read_small("generation_config.json", [&](const JsonView& json) { return read_ids(json); }));
    BASS_RETURN_IF_ERROR(
        read_small("special_tokens_map.json", [&](const JsonView& json) { return read_token_texts(json); }));
    BASS_RETURN_IF_ERROR(
        read_small("tokenizer_config.json", [&](const JsonView& json) { return read_tokenizer_config(json); }));
    BASS_RETURN_IF_ERROR(read_chat_template());
    return std::move(vocab_);
  }

 private:
  [[nodiscard]] std::string path_of(std::string_view name) const {
    return (std::filesystem::path(directory_) / name).string();
  }
  [[nodiscard]] bool has(std::string_view name) const {
    std::error_code error;
    return std::filesystem::exists(path_of(name), error);
  }

  Status read_tokenizer() {
    const bool is_json = has("tokenizer.json");
    if (!is_json && !has("tokenizer.model")) {
      return invalid_file(fmt::format("{}: neither tokenizer.json nor tokenizer.model is there", directory_));
    }
    const std::string path = path_of(is_json ? "tokenizer.json" : "tokenizer.model");
    MappedFile file;
    BASS_ASSIGN_OR_RETURN(const std::string_view bytes, open_file(path, kMaxTokenizerBytes, file));
    Result<VocabData> vocab = is_json ? parse_tokenizer_json(bytes, path) : parse_sentencepiece(bytes, path);
    if (!vocab.ok()) return vocab.status();
    vocab_ = std::move(vocab).value();
    if (!is_json) vocab_.add_bos = vocab_.model == "llama" && vocab_.bos_id.has_value();
    if (!is_json) vocab_.add_eos = vocab_.model == "t5" && vocab_.eos_id.has_value();
    return ok_status();
  }

  /// Calls `function` with a file's content if the file is there.
  template <class F>
  Status read_small(std::string_view name, const F& function) {
    if (!has(name)) return ok_status();
    const std::string path = path_of(name);
    MappedFile file;
    BASS_ASSIGN_OR_RETURN(const std::string_view text, open_file(path, kMaxSmallBytes, file));
    const Result<nlohmann::json> json = read_small_json(text);
    if (!json.ok()) return invalid_file(fmt::format("{}: {}", path, json.status().message()));
    if (!json.value().is_object()) return invalid_file(fmt::format("{}: need a JSON object", path));
    return function(JsonView(json.value(), path));
  }

  /// "eos_token_id": a number, or a list of which the first counts; all end a turn, also beside an "eos_token". Numbers
  /// outside the vocabulary say that there is none.
  Status read_ids(const JsonView& json) {
    const auto to_id = [&](const nlohmann::json& value, std::optional<int32_t>& id) {
      const int64_t number = value.is_number_integer() ? value.get<int64_t>() : -1;
      if (number >= 0 && static_cast<size_t>(number) < vocab_.tokens.size()) id = static_cast<int32_t>(number);
    };
    const auto read = [&](std::string_view key, std::optional<int32_t>& id) -> Status {
      if (!json.has(key)) return ok_status();
      const nlohmann::json& value = json.value()[std::string(key)];
      if (!value.is_number_integer() && !value.is_array()) return json.error(fmt::format("'{}' is no token", key));
      const nlohmann::json& first = value.is_array() && !value.empty() ? value[0] : value;
      to_id(first, id);
      if (key != "eos_token_id") return ok_status();
      if (value.is_array() && value.size() > 1) to_id(value[1], vocab_.eot_id);
      for (const nlohmann::json& end : value.is_array() ? value : nlohmann::json::array({value})) {
        std::optional<int32_t> end_id;
        to_id(end, end_id);
        if (end_id && std::ranges::count(vocab_.more_end_ids, *end_id) == 0) vocab_.more_end_ids.push_back(*end_id);
      }
      return ok_status();
    };
    std::optional<int32_t> ignored;  // where the template has said it already
    BASS_RETURN_IF_ERROR(read("bos_token_id", vocab_.add_bos ? ignored : vocab_.bos_id));
    BASS_RETURN_IF_ERROR(read("eos_token_id", vocab_.add_eos ? ignored : vocab_.eos_id));
    return read("pad_token_id", vocab_.padding_id);
  }

  [[nodiscard]] std::optional<int32_t> id_of(std::string_view text) const {
    const auto found = std::ranges::find(vocab_.tokens, text);
    if (found == vocab_.tokens.end()) return std::nullopt;
    return static_cast<int32_t>(found - vocab_.tokens.begin());
  }

  /// "bos_token": a text, or an object with one as "content".
  Status read_token_texts(const JsonView& json) {
    const auto read = [&](std::string_view key, std::optional<int32_t>& id) -> Status {
      if (!json.has(key)) return ok_status();
      BASS_ASSIGN_OR_RETURN(const JsonView token, json.get(key));
      std::string text;
      if (token.value().is_string()) {
        text = token.value().get<std::string>();
      } else {
        BASS_ASSIGN_OR_RETURN(text, token.get_string("content"));
      }
      if (const std::optional<int32_t> found = id_of(text); found.has_value()) id = found;
      return ok_status();
    };
    if (!vocab_.add_bos || !vocab_.rules.has_value()) BASS_RETURN_IF_ERROR(read("bos_token", vocab_.bos_id));
    if (!vocab_.add_eos || !vocab_.rules.has_value()) BASS_RETURN_IF_ERROR(read("eos_token", vocab_.eos_id));
    return read("pad_token", vocab_.padding_id);
  }

  Status read_tokenizer_config(const JsonView& json) {
    if (!vocab_.rules.has_value()) BASS_RETURN_IF_ERROR(read_added_tokens(json));
    BASS_RETURN_IF_ERROR(read_token_texts(json));
    BASS_ASSIGN_OR_RETURN(const bool adds_bos, json.get_bool_or("add_bos_token", vocab_.add_bos));
    BASS_ASSIGN_OR_RETURN(const bool adds_eos, json.get_bool_or("add_eos_token", vocab_.add_eos));
    vocab_.add_bos = adds_bos && vocab_.bos_id.has_value();
    vocab_.add_eos = adds_eos && vocab_.eos_id.has_value();
    if (!json.has("chat_template")) return ok_status();
    BASS_ASSIGN_OR_RETURN(const JsonView chat, json.get("chat_template"));
    if (chat.value().is_string()) {
      vocab_.chat_template = chat.value().get<std::string>();
      return ok_status();
    }
    return read_named_templates(json);
  }

  /// Several templates with names: the default one.
  Status read_named_templates(const JsonView& json) {
    BASS_ASSIGN_OR_RETURN(const std::vector<JsonView> templates, json.get_array("chat_template"));
    for (const JsonView& entry : templates) {
      BASS_ASSIGN_OR_RETURN(const std::string name, entry.get_string("name"));
      if (name != "default") continue;
      BASS_ASSIGN_OR_RETURN(vocab_.chat_template, entry.get_string("template"));
    }
    return ok_status();
  }

  /// Beside a tokenizer.model, "added_tokens_decoder" has tokens behind the model's, and says which are special.
  Status read_added_tokens(const JsonView& json) {
    if (!json.has("added_tokens_decoder")) return ok_status();
    BASS_ASSIGN_OR_RETURN(const JsonView tokens, json.get("added_tokens_decoder"));
    if (!tokens.value().is_object()) return tokens.error("need an object");
    for (const auto& [key, value] : tokens.value().items()) {
      BASS_ASSIGN_OR_RETURN(const JsonView token, tokens.get(key));
      BASS_ASSIGN_OR_RETURN(const std::string text, token.get_string("content"));
      BASS_ASSIGN_OR_RETURN(const bool is_special, token.get_bool_or("special", false));
      const bool is_id = !key.empty() && key.size() < 8 && key.find_first_not_of("0123456789") == std::string::npos;
      if (!is_id) return tokens.error(fmt::format("'{}' is no token", printable(key)));
      BASS_RETURN_IF_ERROR(add_token(static_cast<size_t>(std::stoul(key)), text, is_special));
    }
    return ok_status();
  }

  Status add_token(size_t id, const std::string& text, bool is_special) {
    constexpr size_t kMaxGap = 1 << 16;
    if (id > vocab_.tokens.size() + kMaxGap) {
      return invalid_file(fmt::format("{}: the added token {} lies far behind the {} others",
                                      path_of("tokenizer_config.json"), id, vocab_.tokens.size()));
    }
    for (size_t i = vocab_.tokens.size(); i <= id; ++i) {
      vocab_.tokens.push_back(fmt::format("[UNUSED_{}]", i));
      vocab_.token_types.push_back(static_cast<int32_t>(TokenType::kUnused));
      vocab_.scores.push_back(0);
    }
    int32_t& type = vocab_.token_types[id];
    if (vocab_.tokens[id] == text && type != static_cast<int32_t>(TokenType::kUnused)) {
      // The model's own word counts, but for tokens that it has as text.
      if (is_special && type == static_cast<int32_t>(TokenType::kNormal))
        type = static_cast<int32_t>(TokenType::kControl);
      return ok_status();
    }
    vocab_.tokens[id] = text;
    vocab_.scores[id] = kAddedScore;
    type = static_cast<int32_t>(is_special ? TokenType::kControl : TokenType::kUserDefined);
    return ok_status();
  }

  Status read_chat_template() {
    if (!has("chat_template.jinja")) return ok_status();
    MappedFile file;
    BASS_ASSIGN_OR_RETURN(const std::string_view text, open_file(path_of("chat_template.jinja"), kMaxSmallBytes, file));
    vocab_.chat_template = text;
    return ok_status();
  }

  std::string directory_;
  VocabData vocab_;
};

}  // namespace

Result<VocabData> load_hf_vocab(const std::string& directory) {
  try {
    return Loader(directory).run();
  } catch (...) {
    return caught_status(directory);
  }
}

}  // namespace bass
