#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "text/json_reader.h"
#include "text/json_rules.h"
#include "text/named_rules.h"

namespace bass {
namespace {

bool is_byte_token(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); };
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') && is_hex(text[3]) && is_hex(text[4]);
}

class Parser {
 public:
  Parser(TokenizerJson json, const std::string& source) : json_(std::move(json)), root_(json_.root, "") {
    vocab_.source = source;
  }

  Result<VocabData> run() {
    if (!json_.root.is_object()) return invalid_file("need a JSON object");
    BASS_ASSIGN_OR_RETURN(const JsonView model, root_.get("model"));
    BASS_RETURN_IF_ERROR(read_model(model));
    BASS_RETURN_IF_ERROR(read_rules());
    BASS_RETURN_IF_ERROR(read_added_tokens());
    BASS_RETURN_IF_ERROR(read_template());
    if (const auto unknown = unknown_text_.empty() ? id_of_.end() : id_of_.find(unknown_text_);
        unknown != id_of_.end()) {
      vocab_.unknown_id = unknown->second;
      int32_t& type = vocab_.token_types[static_cast<size_t>(unknown->second)];
      // One that is special, too, can be written in a text.
      if (type != static_cast<int32_t>(TokenType::kControl)) type = static_cast<int32_t>(TokenType::kUnknown);
    }
    if (const std::optional<std::string> name = name_of_rules(rules_); name.has_value()) {
      vocab_.pre = *name;
    }
    vocab_.rules = std::move(rules_);
    return std::move(vocab_);
  }

 private:
  Status read_model(const JsonView& model) {
    BASS_ASSIGN_OR_RETURN(const std::string type, model.get_string_or("type", "BPE"));
    if (type == "BPE") {
      BASS_RETURN_IF_ERROR(read_bpe(model));
    } else if (type == "Unigram") {
      BASS_RETURN_IF_ERROR(read_unigram(model));
    } else {
      return model.error(fmt::format("the type '{}' is not supported; BASS knows BPE and Unigram", printable(type)));
    }
    BASS_ASSIGN_OR_RETURN(rules_.has_byte_fallback, model.get_bool_or("byte_fallback", false));
    return add_vocabulary(type == "Unigram");
  }

  Status read_bpe(const JsonView& model) {
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      BASS_ASSIGN_OR_RETURN(const std::string affix, model.get_string_or(key, ""));
      if (!affix.empty()) return model.error(fmt::format("'{}' is not supported", key));
    }
    if (model.has("dropout") && model.value()["dropout"] != 0) return model.error("'dropout' is not supported");
    BASS_ASSIGN_OR_RETURN(unknown_text_, model.get_string_or("unk_token", ""));
    BASS_ASSIGN_OR_RETURN(rules_.fuses_unknown, model.get_bool_or("fuse_unk", false));
    BASS_ASSIGN_OR_RETURN(rules_.ignores_merges, model.get_bool_or("ignore_merges", false));
    vocab_.merges = std::move(json_.merges);
    return ok_status();
  }

  Status read_unigram(const JsonView& model) {
    rules_.piece_model = PieceModel::kUnigram;
    BASS_ASSIGN_OR_RETURN(const int64_t unknown, model.get_int("unk_id"));
    if (unknown < 0 || static_cast<size_t>(unknown) >= json_.vocab.size()) {
      return model.error(fmt::format("unk_id is {}, outside of the vocabulary of {}", unknown, json_.vocab.size()));
    }
    unknown_text_ = json_.vocab[static_cast<size_t>(unknown)].text;
    return ok_status();
  }

  /// Places every entry at its id.
  Status add_vocabulary(bool has_scores) {
    if (json_.vocab.empty()) return invalid_file("model.vocab is missing or empty");
    if (json_.is_list != has_scores) {
      return invalid_file(has_scores ? "model.vocab is no list of [text, score]" : "model.vocab is no object of ids");
    }
    n_listed_ = static_cast<int64_t>(json_.vocab.size());
    int64_t max_id = 0;
    for (const TokenizerJson::Entry& entry : json_.vocab) {
      BASS_RETURN_IF_ERROR(check_id(entry.id, entry.text));
      max_id = std::max(max_id, entry.id);
    }
    resize(static_cast<size_t>(max_id) + 1);
    for (TokenizerJson::Entry& entry : json_.vocab) {
      const auto id = static_cast<size_t>(entry.id);
      if (is_taken_[id]) return invalid_file(fmt::format("model.vocab has two tokens of the id {}", id));
      const bool is_byte = rules_.has_byte_fallback && is_byte_token(entry.text);
      if (has_scores) vocab_.scores[id] = entry.score;
      id_of_.emplace(entry.text, static_cast<TokenId>(id));
      put(id, std::move(entry.text), is_byte ? TokenType::kByte : TokenType::kNormal);
    }
    json_.vocab = {};
    return ok_status();
  }

  /// Ids may have gaps, but a few tokens must not make a huge vocabulary.
  [[nodiscard]] Status check_id(int64_t id, std::string_view text) const {
    constexpr int64_t kMaxGap = 1 << 16;
    if (id >= 0 && id < 2 * n_listed_ + kMaxGap) return ok_status();
    return invalid_file(fmt::format("the token '{}' has the id {}, of {} tokens", printable(text), id, n_listed_));
  }

  void resize(size_t n_tokens) {
    for (size_t i = vocab_.tokens.size(); i < n_tokens; ++i) {
      vocab_.tokens.push_back(fmt::format("[UNUSED_{}]", i));
      vocab_.token_types.push_back(static_cast<int32_t>(TokenType::kUnused));
    }
    if (rules_.piece_model == PieceModel::kUnigram) vocab_.scores.resize(n_tokens);
    is_taken_.resize(n_tokens);
  }

  void put(size_t id, std::string text, TokenType type) {
    vocab_.tokens[id] = std::move(text);
    vocab_.token_types[id] = static_cast<int32_t>(type);
    is_taken_[id] = true;
  }

  Status read_rules() {
    if (root_.has("normalizer")) {
      BASS_ASSIGN_OR_RETURN(const JsonView normalizer, root_.get("normalizer"));
      BASS_RETURN_IF_ERROR(add_normalizer(normalizer, rules_.normalizer));
    }
    if (root_.has("pre_tokenizer")) {
      BASS_ASSIGN_OR_RETURN(const JsonView pre_tokenizer, root_.get("pre_tokenizer"));
      BASS_RETURN_IF_ERROR(add_pre_tokenizer(pre_tokenizer, rules_.pre_tokenizer));
    }
    rules_.is_byte_level = std::ranges::any_of(
        rules_.pre_tokenizer, [](const SplitStep& step) { return step.kind == SplitStep::Kind::kByteLevel; });
    DecoderRules decoder{.is_byte_level = rules_.is_byte_level};
    if (root_.has("decoder")) {
      BASS_ASSIGN_OR_RETURN(const JsonView json, root_.get("decoder"));
      BASS_ASSIGN_OR_RETURN(decoder, read_decoder(json));
    }
    if (decoder.is_byte_level != rules_.is_byte_level) {
      return invalid_file("the decoder and the pre_tokenizer must both be byte-level, or none of them");
    }
    if (rules_.is_byte_level && rules_.piece_model == PieceModel::kUnigram) {
      return invalid_file("a byte-level Unigram model is not supported");
    }
    rules_.first_space = decoder.first_space;
    vocab_.model = rules_.is_byte_level ? "gpt2" : rules_.piece_model == PieceModel::kUnigram ? "t5" : "llama";
    return ok_status();
  }

  Status read_added_tokens() {
    if (!root_.has("added_tokens")) return ok_status();
    BASS_ASSIGN_OR_RETURN(const std::vector<JsonView> tokens, root_.get_array("added_tokens"));
    n_listed_ += static_cast<int64_t>(tokens.size());
    for (const JsonView& json : tokens) {
      BASS_ASSIGN_OR_RETURN(std::string text, json.get_string("content"));
      BASS_ASSIGN_OR_RETURN(const int64_t id, json.get_int("id"));
      BASS_ASSIGN_OR_RETURN(const bool is_special, json.get_bool_or("special", false));
      AddedToken token;
      BASS_ASSIGN_OR_RETURN(token.strips_left, json.get_bool_or("lstrip", false));
      BASS_ASSIGN_OR_RETURN(token.strips_right, json.get_bool_or("rstrip", false));
      BASS_ASSIGN_OR_RETURN(token.is_single_word, json.get_bool_or("single_word", false));
      BASS_ASSIGN_OR_RETURN(token.is_normalized, json.get_bool_or("normalized", !is_special));
      if (text.empty()) continue;
      BASS_RETURN_IF_ERROR(check_id(id, text));
      token.id = static_cast<TokenId>(id);
      if (static_cast<size_t>(id) >= vocab_.tokens.size()) resize(static_cast<size_t>(id) + 1);
      // Without a normaliser the normalised text is the text.
      if (rules_.normalizer.empty()) token.is_normalized = false;
      if (token != AddedToken{.id = token.id}) rules_.added_tokens.push_back(token);
      id_of_.emplace(text, token.id);
      put(static_cast<size_t>(id), std::move(text), is_special ? TokenType::kControl : TokenType::kUserDefined);
    }
    return ok_status();
  }

  Status read_template() {
    if (!root_.has("post_processor")) return ok_status();
    BASS_ASSIGN_OR_RETURN(const JsonView json, root_.get("post_processor"));
    BASS_ASSIGN_OR_RETURN(const TemplateTokens tokens, read_post_processor(json));
    const auto find = [&](const std::string& text, std::optional<int32_t>& id, bool& is_added) {
      if (text.empty()) return ok_status();
      const auto found = id_of_.find(text);
      if (found == id_of_.end()) return json.error(fmt::format("the token '{}' is unknown", printable(text)));
      id = found->second;
      is_added = true;
      return ok_status();
    };
    BASS_RETURN_IF_ERROR(find(tokens.begin, vocab_.bos_id, vocab_.add_bos));
    return find(tokens.end, vocab_.eos_id, vocab_.add_eos);
  }

  TokenizerJson json_;
  JsonView root_;
  VocabData vocab_;
  int64_t n_listed_ = 0;  // tokens that the file names: ids may be somewhat more
  TokenizerRules rules_;
  std::string unknown_text_;
  std::vector<bool> is_taken_;
  std::unordered_map<std::string, TokenId> id_of_;
};

}  // namespace

Result<VocabData> parse_tokenizer_json(std::string_view text, const std::string& source) {
  const auto named = [&](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", source, status.message()));
  };
  Result<TokenizerJson> json = read_tokenizer_json(text);
  if (!json.ok()) return named(json.status());
  Result<VocabData> vocab = Parser(std::move(json).value(), source).run();
  if (!vocab.ok()) return named(vocab.status());
  if (vocab->pre.empty()) vocab->huggingface_json = text;
  return vocab;
}

}  // namespace bass
