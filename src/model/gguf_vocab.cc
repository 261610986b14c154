#include "model/gguf_vocab.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <unordered_map>

#include "base/check.h"
#include "text/named_rules.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace bass {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key_of(std::string_view name) { return fmt::format("{}{}", kPrefix, name); }

Status load_strings(const GgufFile& file, const std::string& key, std::vector<std::string>& out) {
  BASS_ASSIGN_OR_RETURN(const std::vector<std::string_view> strings, file.get_string_array(key));
  for (size_t i = 0; i < strings.size(); ++i) {
    if (!find_invalid_utf8(strings[i]).has_value()) continue;
    return invalid_file(fmt::format("{}: element {} has invalid UTF-8 (key '{}')", file.path(), i, key));
  }
  out.assign(strings.begin(), strings.end());
  return ok_status();
}

Status check_one_a_token(const GgufFile& file, const std::string& key, size_t n, size_t n_tokens) {
  if (n == n_tokens) return ok_status();
  return invalid_file(fmt::format("{}: {} entries for {} tokens (key '{}')", file.path(), n, n_tokens, key));
}

Status load_types(const GgufFile& file, size_t n_tokens, std::vector<int32_t>& out) {
  const std::string key = key_of("token_type");
  if (!file.has(key)) return ok_status();
  BASS_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file.get_int_array(key));
  BASS_RETURN_IF_ERROR(check_one_a_token(file, key, types.size(), n_tokens));
  for (const int64_t type : types) {
    if (type < 0 || type > std::numeric_limits<int32_t>::max()) {
      return invalid_file(fmt::format("{}: {} is no token type (key '{}')", file.path(), type, key));
    }
    out.push_back(static_cast<int32_t>(type));
  }
  return ok_status();
}

Status check_in_vocabulary(const GgufFile& file, const std::string& key, int64_t id, size_t n_tokens) {
  if (id >= 0 && static_cast<size_t>(id) < n_tokens) return ok_status();
  return invalid_file(
      fmt::format("{}: {} is outside of the vocabulary of {} tokens (key '{}')", file.path(), id, n_tokens, key));
}

Status load_id(const GgufFile& file, std::string_view name, size_t n_tokens, std::optional<int32_t>& out) {
  const std::string key = key_of(name);
  if (!file.has(key)) return ok_status();
  BASS_ASSIGN_OR_RETURN(const uint32_t id, file.get_u32(key));
  BASS_RETURN_IF_ERROR(check_in_vocabulary(file, key, id, n_tokens));
  out = static_cast<int32_t>(id);
  return ok_status();
}

Status load_scores(const GgufFile& file, size_t n_tokens, std::vector<double>& out) {
  const std::string key = key_of("scores");
  if (!file.has(key)) return ok_status();
  BASS_ASSIGN_OR_RETURN(const std::vector<float> scores, file.get_float_array(key));
  BASS_RETURN_IF_ERROR(check_one_a_token(file, key, scores.size(), n_tokens));
  out.assign(scores.begin(), scores.end());
  return ok_status();
}

/// Ids that end a turn, of models that have several.
Status load_end_ids(const GgufFile& file, size_t n_tokens, std::vector<int32_t>& out) {
  const std::string key = key_of("eos_token_ids");
  if (!file.has(key)) return ok_status();
  BASS_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, file.get_int_array(key));
  for (const int64_t id : ids) {
    BASS_RETURN_IF_ERROR(check_in_vocabulary(file, key, id, n_tokens));
    out.push_back(static_cast<int32_t>(id));
  }
  return ok_status();
}

Status load_charsmap(const GgufFile& file, std::string& out) {
  const std::string key = key_of("precompiled_charsmap");
  if (!file.has(key)) return ok_status();
  BASS_ASSIGN_OR_RETURN(const std::vector<int64_t> bytes, file.get_int_array(key));
  out.reserve(bytes.size());
  for (const int64_t byte : bytes) {
    if (byte < -128 || byte > 255) {
      return invalid_file(fmt::format("{}: {} is no byte (key '{}')", file.path(), byte, key));
    }
    out += static_cast<char>(byte);
  }
  return ok_status();
}

/// What a file leaves out, by its kind: writers rely on it.
void set_defaults(VocabData& vocab) {
  const auto fallback = [&](std::optional<int32_t>& id, int32_t value) {
    if (!id.has_value() && static_cast<size_t>(value) < vocab.tokens.size()) id = value;
  };
  if (vocab.model == "llama") {
    fallback(vocab.unknown_id, 0);
    fallback(vocab.bos_id, 1);
    fallback(vocab.eos_id, 2);
  } else if (vocab.model == "t5") {
    fallback(vocab.eos_id, 1);
    fallback(vocab.unknown_id, 2);
  }
  vocab.add_bos = vocab.bos_id.has_value() &&
                  (vocab.model == "llama" || (vocab.model == "gpt2" && adds_begin_by_default(vocab.pre)));
  vocab.add_eos = vocab.model == "t5" && vocab.eos_id.has_value();
}

/// A vocabulary from a tokenizer.json may merge by rank, where GGUF has scores: a token's is that of its first merge,
/// as in SentencePiece's own BPE.
std::vector<float> scores_of(const VocabData& vocab) {
  if (!vocab.scores.empty()) return {vocab.scores.begin(), vocab.scores.end()};
  std::unordered_map<std::string, float> score_of;
  for (const std::string& merge : vocab.merges) {
    std::string joined = merge;
    if (const size_t space = joined.find(' '); space != joined.npos) joined.erase(space, 1);
    score_of.emplace(std::move(joined), -static_cast<float>(score_of.size()));
  }
  std::vector<float> scores;
  for (const std::string& token : vocab.tokens) {
    const auto found = score_of.find(token);
    scores.push_back(found == score_of.end() ? 0.0F : found->second);
  }
  return scores;
}

/// A tokenizer.json in the file says more than the other keys.
Status load_huggingface_json(const GgufFile& file, VocabData& vocab) {
  constexpr std::string_view kKey = "tokenizer.huggingface.json";
  if (!file.has(kKey)) return ok_status();
  BASS_ASSIGN_OR_RETURN(const std::string_view json, file.get_string(kKey));
  BASS_ASSIGN_OR_RETURN(VocabData parsed, parse_tokenizer_json(json, fmt::format("{} ({})", file.path(), kKey)));
  drop_added_tokens(vocab.tokens.size(), parsed);  // the model has no row for them
  if (parsed.tokens.size() > vocab.tokens.size()) {
    return invalid_file(fmt::format("{}: {} tokens, but {} in the key '{}'", file.path(), vocab.tokens.size(),
                                    parsed.tokens.size(), kKey));
  }
  // The list may be longer: it is as long as the model's embedding.
  for (size_t i = parsed.tokens.size(); i < vocab.tokens.size(); ++i) {
    parsed.tokens.push_back(vocab.tokens[i]);
    parsed.token_types.push_back(static_cast<int32_t>(TokenType::kUnused));
    if (!parsed.scores.empty()) parsed.scores.push_back(0);
  }
  vocab.key_prefix.clear();  // merges and scores are those of the text
  vocab.model = std::move(parsed.model);
  vocab.pre = std::move(parsed.pre);
  vocab.tokens = std::move(parsed.tokens);
  vocab.token_types = std::move(parsed.token_types);
  vocab.merges = std::move(parsed.merges);
  vocab.scores = std::move(parsed.scores);
  vocab.rules = std::move(parsed.rules);
  vocab.huggingface_json = std::move(parsed.huggingface_json);
  if (parsed.unknown_id.has_value()) vocab.unknown_id = parsed.unknown_id;
  return ok_status();
}

}  // namespace

void drop_added_tokens(size_t n_tokens, VocabData& vocab) {
  const auto is_added = [](int32_t type) {
    return type != static_cast<int32_t>(TokenType::kNormal) && type != static_cast<int32_t>(TokenType::kByte);
  };
  while (vocab.tokens.size() > n_tokens && !vocab.token_types.empty() && is_added(vocab.token_types.back())) {
    vocab.tokens.pop_back();
    vocab.token_types.pop_back();
    if (!vocab.scores.empty()) vocab.scores.pop_back();
  }
  const auto is_gone = [&](int32_t id) { return static_cast<size_t>(id) >= vocab.tokens.size(); };
  std::erase_if(vocab.more_end_ids, is_gone);
  if (vocab.rules) std::erase_if(vocab.rules->added_tokens, [&](const AddedToken& token) { return is_gone(token.id); });
}

Result<VocabData> load_vocab(const GgufFile& file) {
  VocabData vocab;
  vocab.source = file.path();
  vocab.key_prefix = kPrefix;
  BASS_ASSIGN_OR_RETURN(vocab.model, file.get_string(key_of("model")));
  BASS_ASSIGN_OR_RETURN(vocab.pre, file.get_string_or(key_of("pre"), ""));
  BASS_RETURN_IF_ERROR(load_strings(file, key_of("tokens"), vocab.tokens));
  BASS_RETURN_IF_ERROR(load_types(file, vocab.tokens.size(), vocab.token_types));
  if (vocab.model == "gpt2") BASS_RETURN_IF_ERROR(load_strings(file, key_of("merges"), vocab.merges));
  BASS_RETURN_IF_ERROR(load_scores(file, vocab.tokens.size(), vocab.scores));
  BASS_RETURN_IF_ERROR(load_id(file, "bos_token_id", vocab.tokens.size(), vocab.bos_id));
  BASS_RETURN_IF_ERROR(load_id(file, "eos_token_id", vocab.tokens.size(), vocab.eos_id));
  BASS_RETURN_IF_ERROR(load_id(file, "eot_token_id", vocab.tokens.size(), vocab.eot_id));
  BASS_RETURN_IF_ERROR(load_end_ids(file, vocab.tokens.size(), vocab.more_end_ids));
  BASS_RETURN_IF_ERROR(load_id(file, "unknown_token_id", vocab.tokens.size(), vocab.unknown_id));
  BASS_RETURN_IF_ERROR(load_id(file, "padding_token_id", vocab.tokens.size(), vocab.padding_id));
  set_defaults(vocab);
  BASS_ASSIGN_OR_RETURN(vocab.add_bos, file.get_bool_or(key_of("add_bos_token"), vocab.add_bos));
  BASS_ASSIGN_OR_RETURN(vocab.add_eos, file.get_bool_or(key_of("add_eos_token"), vocab.add_eos));
  BASS_ASSIGN_OR_RETURN(vocab.add_space_prefix, file.get_bool_or(key_of("add_space_prefix"), true));
  BASS_ASSIGN_OR_RETURN(vocab.remove_extra_whitespaces, file.get_bool_or(key_of("remove_extra_whitespaces"), false));
  // GGUF has no word for what the tokens of these models' own files do with white space.
  BASS_ASSIGN_OR_RETURN(const std::string_view architecture, file.get_string_or("general.architecture", ""));
  vocab.strips_behind_special = vocab.model == "llama" && architecture == "phi3";
  BASS_RETURN_IF_ERROR(load_charsmap(file, vocab.precompiled_charsmap));
  BASS_RETURN_IF_ERROR(load_huggingface_json(file, vocab));
  BASS_ASSIGN_OR_RETURN(vocab.chat_template, file.get_string_or("tokenizer.chat_template", ""));
  return vocab;
}

void add_vocab(const VocabData& vocab, GgufWriter* writer) {
  writer->add_string(key_of("model"), vocab.model);
  if (!vocab.pre.empty()) writer->add_string(key_of("pre"), vocab.pre);
  writer->add_strings(key_of("tokens"), vocab.tokens);
  if (!vocab.token_types.empty()) writer->add_i32s(key_of("token_type"), vocab.token_types);
  if (vocab.model == "gpt2" || !vocab.merges.empty()) writer->add_strings(key_of("merges"), vocab.merges);
  if (vocab.model == "gpt2") {
    if (vocab.pre.empty() && !vocab.huggingface_json.empty()) writer->add_string(key_of("pre"), "default");
  } else {
    writer->add_f32s(key_of("scores"), scores_of(vocab));
    writer->add_bool(key_of("add_space_prefix"), vocab.add_space_prefix);
    writer->add_bool(key_of("remove_extra_whitespaces"), vocab.remove_extra_whitespaces);
  }
  if (!vocab.precompiled_charsmap.empty()) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(vocab.precompiled_charsmap.data());
    writer->add_u8s(key_of("precompiled_charsmap"), {bytes, vocab.precompiled_charsmap.size()});
  }
  if (!vocab.huggingface_json.empty()) writer->add_string("tokenizer.huggingface.json", vocab.huggingface_json);
  const auto add_id = [&](std::string_view name, std::optional<int32_t> id) {
    if (id.has_value()) writer->add_u32(key_of(name), static_cast<uint32_t>(*id));
  };
  add_id("bos_token_id", vocab.bos_id);
  add_id("eos_token_id", vocab.eos_id);
  add_id("eot_token_id", vocab.eot_id);
  if (!vocab.more_end_ids.empty()) writer->add_i32s(key_of("eos_token_ids"), vocab.more_end_ids);
  add_id("unknown_token_id", vocab.unknown_id);
  add_id("padding_token_id", vocab.padding_id);
  writer->add_bool(key_of("add_bos_token"), vocab.add_bos);
  writer->add_bool(key_of("add_eos_token"), vocab.add_eos);
  if (!vocab.chat_template.empty()) writer->add_string("tokenizer.chat_template", vocab.chat_template);
}

}  // namespace bass
