#include "model/gguf_vocab.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "base/check.h"

namespace bass {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key_of(std::string_view name) { return fmt::format("{}{}", kPrefix, name); }

Status load_strings(const GgufFile& file, const std::string& key, std::vector<std::string>& out) {
  BASS_ASSIGN_OR_RETURN(const std::vector<std::string_view> strings, file.get_string_array(key));
  out.assign(strings.begin(), strings.end());
  return ok_status();
}

Status load_types(const GgufFile& file, std::vector<int32_t>& out) {
  const std::string key = key_of("token_type");
  if (!file.has(key)) return ok_status();
  BASS_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file.get_int_array(key));
  for (const int64_t type : types) {
    if (type < 0 || type > std::numeric_limits<int32_t>::max()) {
      return invalid_file(fmt::format("{}: {} is no token type (key '{}')", file.path(), type, key));
    }
    out.push_back(static_cast<int32_t>(type));
  }
  return ok_status();
}

Status load_id(const GgufFile& file, std::string_view name, std::optional<int32_t>& out) {
  const std::string key = key_of(name);
  if (!file.has(key)) return ok_status();
  BASS_ASSIGN_OR_RETURN(const uint32_t id, file.get_u32(key));
  if (id > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    return invalid_file(fmt::format("{}: {} is no token (key '{}')", file.path(), id, key));
  }
  out = static_cast<int32_t>(id);
  return ok_status();
}

}  // namespace

Result<VocabData> load_vocab(const GgufFile& file) {
  VocabData vocab;
  vocab.source = file.path();
  BASS_ASSIGN_OR_RETURN(vocab.model, file.get_string(key_of("model")));
  BASS_ASSIGN_OR_RETURN(vocab.pre, file.get_string_or(key_of("pre"), ""));
  BASS_RETURN_IF_ERROR(load_strings(file, key_of("tokens"), vocab.tokens));
  BASS_RETURN_IF_ERROR(load_types(file, vocab.token_types));
  // Other tokenizer models have no merges; Tokenizer::create refuses those by name.
  if (vocab.model == "gpt2") BASS_RETURN_IF_ERROR(load_strings(file, key_of("merges"), vocab.merges));
  BASS_RETURN_IF_ERROR(load_id(file, "bos_token_id", vocab.bos_id));
  BASS_RETURN_IF_ERROR(load_id(file, "eos_token_id", vocab.eos_id));
  BASS_RETURN_IF_ERROR(load_id(file, "eot_token_id", vocab.eot_id));
  BASS_RETURN_IF_ERROR(load_id(file, "unknown_token_id", vocab.unknown_id));
  BASS_RETURN_IF_ERROR(load_id(file, "padding_token_id", vocab.padding_id));
  BASS_ASSIGN_OR_RETURN(vocab.add_bos, file.get_bool_or(key_of("add_bos_token"), false));
  BASS_ASSIGN_OR_RETURN(vocab.add_eos, file.get_bool_or(key_of("add_eos_token"), false));
  BASS_ASSIGN_OR_RETURN(vocab.chat_template, file.get_string_or("tokenizer.chat_template", ""));
  return vocab;
}

void add_vocab(const VocabData& vocab, GgufWriter* writer) {
  writer->add_string(key_of("model"), vocab.model);
  if (!vocab.pre.empty()) writer->add_string(key_of("pre"), vocab.pre);
  writer->add_strings(key_of("tokens"), vocab.tokens);
  if (!vocab.token_types.empty()) writer->add_i32s(key_of("token_type"), vocab.token_types);
  writer->add_strings(key_of("merges"), vocab.merges);
  const auto add_id = [&](std::string_view name, std::optional<int32_t> id) {
    if (id.has_value()) writer->add_u32(key_of(name), static_cast<uint32_t>(*id));
  };
  add_id("bos_token_id", vocab.bos_id);
  add_id("eos_token_id", vocab.eos_id);
  add_id("eot_token_id", vocab.eot_id);
  add_id("unknown_token_id", vocab.unknown_id);
  add_id("padding_token_id", vocab.padding_id);
  writer->add_bool(key_of("add_bos_token"), vocab.add_bos);
  writer->add_bool(key_of("add_eos_token"), vocab.add_eos);
  if (!vocab.chat_template.empty()) writer->add_string("tokenizer.chat_template", vocab.chat_template);
}

}  // namespace bass
