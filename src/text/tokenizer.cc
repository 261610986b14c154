#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "text/tokenizer_text.h"

namespace bass {
bool Tokenizer::is_end(TokenId id) const { return std::ranges::binary_search(end_ids_, id); }

Status Tokenizer::check_id(TokenId id) const {
  if (is_valid(id)) return ok_status();
  return invalid_argument(fmt::format("token {} is outside of the vocabulary, need 0 to {}", id, vocab_size() - 1));
}

bool Tokenizer::is_control(TokenId id) const {
  BASS_CHECK(is_valid(id));
  return is_control_[static_cast<size_t>(id)];
}

const std::string& Tokenizer::token_bytes(TokenId id) const {
  BASS_CHECK(is_valid(id));
  return bytes_of_token_[static_cast<size_t>(id)];
}

std::vector<uint8_t> Tokenizer::missing_bytes() const {
  std::vector<uint8_t> missing;
  for (size_t byte = 0; rules_.is_byte_level && byte < 256; ++byte) {
    if (token_of_byte_[byte] == kNoToken) missing.push_back(static_cast<uint8_t>(byte));
  }
  return missing;
}

// What stands for a space in SentencePiece's tokens is a space of theirs, too, where the text has it.
size_t Tokenizer::least_token_bytes(std::string_view text) const {
  if (most_shrinking_ == 0) return 0;
  if (rules_.is_byte_level) {
    const auto has_token = [&](char c) { return token_of_byte_[static_cast<unsigned char>(c)] != kNoToken; };
    return static_cast<size_t>(std::ranges::count_if(text, has_token) / most_shrinking_);
  }
  size_t n_bytes = text.size();
  for (size_t at = 0; (at = text.find(kMetaSpace, at)) != text.npos; at += kMetaSpace.size())
    n_bytes -= kMetaSpace.size() - 1;
  return n_bytes / static_cast<size_t>(most_shrinking_);
}

void Tokenizer::append_text(TokenId id, bool with_special, bool& at_start, std::string& out) const {
  const FirstSpace rule = rules_.first_space;
  std::string_view text = token_bytes(id);
  if (is_control(id)) {
    if (!with_special) return;
    out += text;
    if (rule == FirstSpace::kStripOne || rule == FirstSpace::kStripFirstToken) at_start = false;
    return;
  }
  if (!at_start || rule == FirstSpace::kKeep) {
    out += text;
    at_start = false;
    return;
  }
  const bool is_byte = type_of(static_cast<size_t>(id)) == TokenType::kByte;
  if (rule == FirstSpace::kStripFirstToken && !is_byte) {
    std::ranges::copy_if(text, std::back_inserter(out), [](char c) { return c != ' '; });
  } else {
    if (text.starts_with(' ') && (rule == FirstSpace::kStripOne || !is_byte)) text.remove_prefix(1);
    out += text;
  }
  at_start = rule == FirstSpace::kStripTokens && text.empty();
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, bool with_special) const {
  std::string out;
  bool at_start = true;
  for (const TokenId id : ids) {
    BASS_RETURN_IF_ERROR(check_id(id));
    append_text(id, with_special, at_start, out);
  }
  return out;
}

/// What one call of encode() works with.
struct Tokenizer::Encoding {
  const EncodeOptions& options;
  std::unique_ptr<PieceEncoder::Session> session;
  std::vector<TokenId> out;
};

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return invalid_argument(fmt::format("the text has {} bytes, need fewer than 2 GiB", text.size()));
  }
  Encoding state{options, encoder_->start(), {}};
  if (options.add_special && vocab_.add_bos) state.out.push_back(*vocab_.bos_id);
  size_t taken = 0;
  for (size_t from = 0; taken < text.size();) {
    const std::optional<SpecialTokens::Match> match = special_.find(text, from, taken, options.parse_special);
    const size_t end = match.has_value() ? match->begin : text.size();
    if (end > taken) BASS_RETURN_IF_ERROR(encode_raw(text.substr(taken, end - taken), taken == 0, state));
    if (!match.has_value()) break;
    state.out.push_back(match->id);
    from = match->next;
    taken = match->end;
  }
  if (options.add_special && vocab_.add_eos) state.out.push_back(*vocab_.eos_id);
  return std::move(state.out);
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

/// Text between special tokens.
Status Tokenizer::encode_raw(std::string_view text, bool is_first, Encoding& state) const {
  if (!state.options.allow_loss && rules_.is_byte_level) BASS_RETURN_IF_ERROR(check_lossless(text));
  BASS_ASSIGN_OR_RETURN(std::string normalized, normalizer_->apply(std::string(text)));
  if (normalized_special_.is_empty()) return encode_normalized(std::move(normalized), is_first, state);
  size_t taken = 0;
  for (size_t from = 0; taken < normalized.size();) {
    const std::optional<SpecialTokens::Match> match =
        normalized_special_.find(normalized, from, taken, state.options.parse_special);
    const size_t end = match.has_value() ? match->begin : normalized.size();
    if (end > taken) {
      BASS_RETURN_IF_ERROR(encode_normalized(normalized.substr(taken, end - taken), is_first && taken == 0, state));
    }
    if (!match.has_value()) break;
    state.out.push_back(match->id);
    from = match->next;
    taken = match->end;
  }
  return ok_status();
}

Status Tokenizer::encode_normalized(std::string text, bool is_first, Encoding& state) const {
  BASS_ASSIGN_OR_RETURN(const PreTokenizer::Pieces pieces, pre_tokenizer_->split(std::move(text), is_first));
  for (const auto& [begin, end] : pieces.pieces) {
    state.session->encode(std::string_view(pieces.text).substr(begin, end - begin), state.out);
  }
  return ok_status();
}

}  // namespace bass
