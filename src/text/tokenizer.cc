#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "text/byte_level.h"

namespace bass {
namespace {

/// Texts by which vocabularies mark the end of an answer or of a turn, whatever their metadata names.
constexpr std::string_view kEndTexts[] = {
    "<|im_end|>", "<|endoftext|>",   "<|eot_id|>",    "<|eom_id|>", "<|end_of_text|>",
    "<|end|>",    "<|end_of_turn|>", "<end_of_turn>", "<|EOT|>",    "</s>",
};

constexpr size_t kMaxTextBytes = std::numeric_limits<int32_t>::max();

bool is_ordinary(int byte) { return (byte >= ' ' && byte <= '~') || byte == '\n' || byte == '\t'; }

/// Text of a file for a message: not endless, and no control characters for a terminal to obey.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, 80));
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(VocabData vocab) {
  const std::string prefix = vocab.source.empty() ? "" : vocab.source + ": ";
  if (vocab.model != "gpt2") {
    return invalid_file(
        fmt::format("{}the tokenizer model '{}' is unknown; BASS knows: gpt2 (byte-level BPE)", prefix, vocab.model));
  }
  Result<PreTokenizer> pre_tokenizer = PreTokenizer::create(vocab.pre);
  if (!pre_tokenizer.ok()) return Status(pre_tokenizer.status().code(), prefix + pre_tokenizer.status().message());
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer(std::move(vocab), std::move(pre_tokenizer).value()));
  BASS_RETURN_IF_ERROR(tokenizer->build());
  return tokenizer;
}

Status Tokenizer::error(std::string_view what) const {
  return invalid_file(fmt::format("{}{}", vocab_.source.empty() ? "" : vocab_.source + ": ", what));
}

TokenType Tokenizer::type_of(size_t idx) const {
  return vocab_.token_types.empty() ? TokenType::kNormal : static_cast<TokenType>(vocab_.token_types[idx]);
}

Status Tokenizer::build() {
  BASS_RETURN_IF_ERROR(check_sizes_and_ids());
  std::unordered_map<std::string_view, TokenId> id_of_text;
  id_of_text.reserve(vocab_.tokens.size());
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    id_of_text.emplace(vocab_.tokens[i], static_cast<TokenId>(i));  // of equal texts the first one counts
  }
  const ByteLevelMap map;
  spell_tokens(map);
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = id_of_text.find(map.spell(static_cast<uint8_t>(byte)));
    token_of_byte_[static_cast<size_t>(byte)] = found == id_of_text.end() ? kNoToken : found->second;
    if (found == id_of_text.end() && is_ordinary(byte)) {
      return error(fmt::format("the vocabulary has no token for byte 0x{:02X}: it is no byte-level vocabulary", byte));
    }
  }
  BASS_RETURN_IF_ERROR(add_merges(id_of_text));
  find_end_ids();
  id_of_text.clear();
  vocab_.tokens = {};
  vocab_.merges = {};
  return ok_status();
}

Status Tokenizer::check_sizes_and_ids() const {
  const size_t n_tokens = vocab_.tokens.size();
  if (n_tokens == 0) return error("the vocabulary is empty");
  if (n_tokens > kMaxTextBytes) return error(fmt::format("the vocabulary has {} tokens, too many", n_tokens));
  if (!vocab_.token_types.empty() && vocab_.token_types.size() != n_tokens) {
    return error(fmt::format("the vocabulary has {} tokens, but types for {}", n_tokens, vocab_.token_types.size()));
  }
  const auto check_id = [&](std::string_view name, std::optional<int32_t> id) {
    if (!id.has_value() || (*id >= 0 && static_cast<size_t>(*id) < n_tokens)) return ok_status();
    return error(fmt::format("the {} token is {}, outside of the vocabulary of {} tokens", name, *id, n_tokens));
  };
  BASS_RETURN_IF_ERROR(check_id("begin-of-sequence (bos)", vocab_.bos_id));
  BASS_RETURN_IF_ERROR(check_id("end-of-sequence (eos)", vocab_.eos_id));
  BASS_RETURN_IF_ERROR(check_id("end-of-turn (eot)", vocab_.eot_id));
  BASS_RETURN_IF_ERROR(check_id("unknown", vocab_.unknown_id));
  BASS_RETURN_IF_ERROR(check_id("padding", vocab_.padding_id));
  if (vocab_.add_bos && !vocab_.bos_id.has_value()) return error("a begin token is to be added, but there is none");
  if (vocab_.add_eos && !vocab_.eos_id.has_value()) return error("an end token is to be added, but there is none");
  return ok_status();
}

void Tokenizer::spell_tokens(const ByteLevelMap& map) {
  bytes_of_token_.reserve(vocab_.tokens.size());
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    const std::string& text = vocab_.tokens[i];
    const auto id = static_cast<TokenId>(i);
    const TokenType type = type_of(i);
    if (type == TokenType::kControl || type == TokenType::kUserDefined || type == TokenType::kUnknown) {
      bytes_of_token_.push_back(text);
      if (type == TokenType::kUserDefined) user_defined_.add(text, id);
      if (type != TokenType::kUnknown) user_defined_and_control_.add(text, id);
    } else {
      bytes_of_token_.push_back(map.to_bytes(text).value_or(text));  // what spells no bytes stands for itself
    }
  }
}

Status Tokenizer::add_merges(const std::unordered_map<std::string_view, TokenId>& id_of_text) {
  merges_.reserve(vocab_.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < vocab_.merges.size(); ++rank) {
    const std::string_view merge = vocab_.merges[rank];
    const size_t space = merge.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == merge.size()) {
      return error(fmt::format("merge {} is '{}', need two tokens with a space between them", rank, printable(merge)));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const std::string_view parts[] = {left, right, joined};
    TokenId ids[3] = {};
    for (size_t i = 0; i < 3; ++i) {
      const auto found = id_of_text.find(parts[i]);
      if (found == id_of_text.end()) {
        return error(
            fmt::format("merge {} ('{}') needs the token '{}', which is not in the vocabulary", rank, merge, parts[i]));
      }
      ids[i] = found->second;
    }
    merges_.add(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
  }
  return ok_status();
}

void Tokenizer::find_end_ids() {
  for (const std::optional<int32_t> id : {vocab_.eos_id, vocab_.eot_id}) {
    if (id.has_value()) end_ids_.push_back(*id);
  }
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    if (type_of(i) == TokenType::kControl && std::ranges::count(kEndTexts, vocab_.tokens[i]) > 0) {
      end_ids_.push_back(static_cast<TokenId>(i));
    }
  }
  std::ranges::sort(end_ids_);
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
}

bool Tokenizer::is_end(TokenId id) const { return std::ranges::binary_search(end_ids_, id); }

bool Tokenizer::is_control(TokenId id) const {
  BASS_CHECK(is_valid(id));
  const TokenType type = type_of(static_cast<size_t>(id));
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

const std::string& Tokenizer::token_bytes(TokenId id) const {
  BASS_CHECK(is_valid(id));
  return bytes_of_token_[static_cast<size_t>(id)];
}

std::vector<uint8_t> Tokenizer::missing_bytes() const {
  std::vector<uint8_t> missing;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (token_of_byte_[byte] == kNoToken) missing.push_back(static_cast<uint8_t>(byte));
  }
  return missing;
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, bool with_special) const {
  std::string out;
  for (const TokenId id : ids) {
    if (!is_valid(id)) {
      return invalid_argument(fmt::format("token {} is outside of the vocabulary, need 0 to {}", id, vocab_size() - 1));
    }
    if (with_special || !is_control(id)) out += token_bytes(id);
  }
  return out;
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return invalid_argument(fmt::format("the text has {} bytes, need fewer than 2 GiB", text.size()));
  }
  std::vector<TokenId> out;
  if (options.add_special && vocab_.add_bos) out.push_back(*vocab_.bos_id);
  const SpecialTokens& special = options.parse_special ? user_defined_and_control_ : user_defined_;
  BpeMerger merger(merges_);
  for (size_t at = 0; at < text.size();) {
    const std::optional<SpecialTokens::Match> match = special.find(text, at);
    const std::string_view ordinary = text.substr(at, match.has_value() ? match->begin - at : text.npos);
    if (!options.allow_loss) BASS_RETURN_IF_ERROR(check_lossless(ordinary));
    BASS_RETURN_IF_ERROR(encode_ordinary(ordinary, merger, out));
    if (!match.has_value()) break;
    out.push_back(match->id);
    at = match->begin + match->n_bytes;
  }
  if (options.add_special && vocab_.add_eos) out.push_back(*vocab_.eos_id);
  return out;
}

Status Tokenizer::check_lossless(std::string_view text) const {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (token_of_byte_[byte] != kNoToken) continue;
    return invalid_argument(
        fmt::format("the text contains byte 0x{:02X}, for which the vocabulary has no token; remove it", byte));
  }
  return ok_status();
}

Status Tokenizer::encode_ordinary(std::string_view text, BpeMerger& merger, std::vector<TokenId>& out) const {
  BASS_ASSIGN_OR_RETURN(const std::vector<uint32_t> ends, pre_tokenizer_.split(text));
  std::vector<TokenId> piece;
  size_t at = 0;
  for (const uint32_t end : ends) {
    piece.clear();
    for (; at < end; ++at) {
      const TokenId id = token_of_byte_[static_cast<unsigned char>(text[at])];
      if (id != kNoToken) piece.push_back(id);
    }
    merger.merge(piece, out);
  }
  return ok_status();
}

}  // namespace bass
