// How a vocabulary becomes a tokenizer.
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "text/byte_level.h"
#include "text/json_rules.h"
#include "text/named_rules.h"
#include "text/tokenizer_text.h"

namespace bass {
namespace {

/// Texts by which vocabularies mark the end of an answer or of a turn, whatever their metadata names.
constexpr std::string_view kEndTexts[] = {
    "<|im_end|>", "<|endoftext|>",   "<|eot_id|>",    "<|eom_id|>", "<|end_of_text|>",
    "<|end|>",    "<|end_of_turn|>", "<end_of_turn>", "<|EOT|>",    "</s>",
    "<|eot|>",    "<|endofturn|>",   "[|endofturn|]", "<|return|>", "<|END_OF_TURN_TOKEN|>",
};

/// Texts that begin a turn, for the same reason.
constexpr std::string_view kBeginTexts[] = {"<start_of_turn>", "<|im_start|>"};

/// Nothing but a special token is spelt so. "</s>" may be HTML.
bool is_turn_text(std::string_view text) {
  return text != "</s>" && (std::ranges::count(kEndTexts, text) > 0 || std::ranges::count(kBeginTexts, text) > 0);
}

// Tries take several times the memory of their texts. Real vocabularies have a tenth of this.
constexpr size_t kMaxVocabBytes = 32 << 20;
constexpr size_t kMaxSpecialBytes = 2 << 20;

bool is_ordinary(int byte) { return (byte >= ' ' && byte <= '~') || byte == '\n' || byte == '\t'; }

/// A token that SentencePiece finds in normalised text, as it stands there.
std::string with_meta_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == ' ' ? kMetaSpace : std::string_view(&c, 1);
  return out;
}

std::string with_spaces(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t at = text.find(kMetaSpace);
    out += text.substr(0, at);
    if (at == text.npos) break;
    out += ' ';
    text.remove_prefix(at + kMetaSpace.size());
  }
  return out;
}

/// Of a vocabulary that strips white space behind special tokens, those that keep it.
bool keeps_space_behind(std::string_view text) { return text == "<unk>" || text == "<s>" || text == "<|endoftext|>"; }

/// The byte of a token like "<0x0A>".
std::optional<uint8_t> byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  unsigned value = 0;
  const char* last = text.data() + 5;
  const auto [end, error] = std::from_chars(text.data() + 3, last, value, 16);
  if (error != std::errc() || end != last) return std::nullopt;
  return static_cast<uint8_t>(value);
}

/// The rules of a vocabulary that brings none along.
Result<TokenizerRules> rules_by_name(const VocabData& vocab) {
  if (vocab.model == "gpt2") return find_named_rules(vocab.pre);
  if (vocab.model != "llama" && vocab.model != "t5") {
    return invalid_file(
        fmt::format("the tokenizer model '{}' is unknown; BASS knows: gpt2 (byte-level BPE), llama (SentencePiece "
                    "BPE), t5 (unigram)",
                    printable(vocab.model)));
  }
  TokenizerRules rules;
  rules.is_byte_level = false;
  rules.piece_model = vocab.model == "llama" ? PieceModel::kMergeScores : PieceModel::kUnigramFloat;
  rules.has_byte_fallback = true;  // if the vocabulary has the tokens
  rules.normalizer.push_back({.kind = NormalizeStep::Kind::kSentencePiece,
                              .content = vocab.precompiled_charsmap,
                              .adds_space_prefix = vocab.add_space_prefix,
                              .removes_extra_whitespaces = vocab.remove_extra_whitespaces});
  rules.first_space = vocab.remove_extra_whitespaces ? FirstSpace::kStripTokens
                      : vocab.add_space_prefix       ? FirstSpace::kStripToken
                                                     : FirstSpace::kKeep;
  return rules;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(VocabData vocab) {
  Result<TokenizerRules> rules = vocab.rules.has_value() ? *std::move(vocab.rules) : rules_by_name(vocab);
  if (!rules.ok()) {
    const std::string prefix = vocab.source.empty() ? "" : vocab.source + ": ";
    return Status(rules.status().code(), prefix + rules.status().message());
  }
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer(std::move(vocab), std::move(rules).value()));
  BASS_RETURN_IF_ERROR(tokenizer->build());
  return tokenizer;
}

Status Tokenizer::error(std::string_view what) const {
  return invalid_file(fmt::format("{}{}", vocab_.source.empty() ? "" : vocab_.source + ": ", what));
}

Status Tokenizer::error_in_key(std::string_view name, std::string_view what) const {
  return error(vocab_.key_prefix.empty() ? std::string(what)
                                         : fmt::format("{} (key '{}{}')", what, vocab_.key_prefix, name));
}

TokenType Tokenizer::type_of(size_t idx) const {
  return vocab_.token_types.empty() ? TokenType::kNormal : static_cast<TokenType>(vocab_.token_types[idx]);
}

Status Tokenizer::build() {
  BASS_RETURN_IF_ERROR(check_sizes_and_ids());
  correct_tokens();
  spell_tokens();
  BASS_RETURN_IF_ERROR(make_encoder());
  Result<Normalizer> normalizer =
      Normalizer::create(rules_.normalizer, user_defined_.is_empty() ? nullptr : &user_defined_);
  if (!normalizer.ok()) return error(normalizer.status().message());
  normalizer_ = std::move(normalizer).value();
  Result<PreTokenizer> pre_tokenizer = PreTokenizer::create(rules_.pre_tokenizer);
  if (!pre_tokenizer.ok()) return error(pre_tokenizer.status().message());
  pre_tokenizer_ = std::move(pre_tokenizer).value();
  BASS_RETURN_IF_ERROR(add_special_tokens());
  find_end_ids();
  if (rules_.is_byte_level) vocab_.tokens = {};  // the encoder looks at the bytes
  vocab_.merges = {};
  vocab_.scores = {};
  vocab_.huggingface_json = {};
  return ok_status();
}

Status Tokenizer::check_text_bytes() const {
  size_t n_bytes = 0, n_special_bytes = 0;
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    n_bytes += vocab_.tokens[i].size();
    const bool is_special = type_of(i) == TokenType::kControl || type_of(i) == TokenType::kUserDefined;
    if (is_special) n_special_bytes += vocab_.tokens[i].size();
  }
  if (n_bytes > kMaxVocabBytes || n_special_bytes > kMaxSpecialBytes) {
    return error(fmt::format("the texts of the tokens have {} bytes, those of special ones {}; need at most {} and {}",
                             n_bytes, n_special_bytes, kMaxVocabBytes, kMaxSpecialBytes));
  }
  return ok_status();
}

Status Tokenizer::check_sizes_and_ids() const {
  const size_t n_tokens = vocab_.tokens.size();
  if (n_tokens == 0) return error("the vocabulary is empty");
  if (n_tokens > kMaxTextBytes) return error(fmt::format("the vocabulary has {} tokens, too many", n_tokens));
  if (!vocab_.token_types.empty() && vocab_.token_types.size() != n_tokens) {
    return error(fmt::format("the vocabulary has {} tokens, but types for {}", n_tokens, vocab_.token_types.size()));
  }
  BASS_RETURN_IF_ERROR(check_text_bytes());
  if (rules_.piece_model != PieceModel::kMergeRanks && vocab_.scores.size() != n_tokens) {
    return error_in_key("scores",
                        fmt::format("the vocabulary has {} tokens, but scores for {}", n_tokens, vocab_.scores.size()));
  }
  const auto bad = std::ranges::find_if_not(vocab_.scores, [](double score) { return std::isfinite(score); });
  if (bad != vocab_.scores.end()) {
    return error_in_key("scores", fmt::format("the score of token {} is no number", bad - vocab_.scores.begin()));
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
  for (const int32_t id : vocab_.more_end_ids) BASS_RETURN_IF_ERROR(check_id("end-of-turn (eos_token_ids)", id));
  for (const AddedToken& token : rules_.added_tokens) BASS_RETURN_IF_ERROR(check_id("added", token.id));
  if (vocab_.add_bos && !vocab_.bos_id.has_value()) return error("a begin token is to be added, but there is none");
  if (vocab_.add_eos && !vocab_.eos_id.has_value()) return error("an end token is to be added, but there is none");
  return ok_status();
}

// Writers of GGUF put spaces where SentencePiece has its own sign, and many have the tokens that begin and end a turn
// as ordinary or user-defined ones: answers would not end.
void Tokenizer::correct_tokens() {
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    const TokenType type = type_of(i);
    if (type == TokenType::kUserDefined && has_own_user_defined())
      vocab_.tokens[i] = with_meta_spaces(vocab_.tokens[i]);
    if ((type != TokenType::kNormal && type != TokenType::kUserDefined) || !is_turn_text(vocab_.tokens[i])) continue;
    if (vocab_.token_types.empty()) {
      vocab_.token_types.assign(vocab_.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
    }
    vocab_.token_types[i] = static_cast<int32_t>(TokenType::kControl);
  }
}

/// SentencePiece finds its user-defined tokens itself, in the text that it has normalised.
bool Tokenizer::has_own_user_defined() const {
  return rules_.piece_model == PieceModel::kMergeScores || rules_.piece_model == PieceModel::kUnigramFloat;
}

/// A token that SentencePiece's model did not have.
bool Tokenizer::is_added(size_t idx) const { return has_own_user_defined() && vocab_.scores[idx] <= kAddedScore; }

void Tokenizer::spell_tokens() {
  const ByteLevelMap map;
  bytes_of_token_.reserve(vocab_.tokens.size());
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    const std::string& text = vocab_.tokens[i];
    const TokenType type = type_of(i);
    const bool is_control = type == TokenType::kControl || type == TokenType::kUnknown;
    is_control_.push_back(is_control);
    if (is_control || (rules_.is_byte_level && type == TokenType::kUserDefined)) {
      bytes_of_token_.push_back(text);
    } else if (rules_.is_byte_level) {
      bytes_of_token_.push_back(map.to_bytes(text).value_or(text));  // what spells no bytes stands for itself
    } else if (const std::optional<uint8_t> byte = byte_of(text); type == TokenType::kByte && byte.has_value()) {
      bytes_of_token_.emplace_back(1, static_cast<char>(*byte));
    } else {
      bytes_of_token_.push_back(with_spaces(text));
    }
  }
}

Status Tokenizer::add_special_tokens() {
  std::vector<AddedToken> properties(vocab_.tokens.size());
  for (size_t i = 0; i < properties.size(); ++i) {
    properties[i].id = static_cast<TokenId>(i);
    properties[i].strips_right = vocab_.strips_behind_special && !keeps_space_behind(vocab_.tokens[i]);
  }
  for (const AddedToken& token : rules_.added_tokens) properties[static_cast<size_t>(token.id)] = token;
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    const TokenType type = type_of(i);
    const bool is_control = type == TokenType::kControl;
    if (!is_control && (type != TokenType::kUserDefined || (has_own_user_defined() && !is_added(i)))) continue;
    if (!properties[i].is_normalized) {
      // Added to SentencePiece's, it is spelt in SentencePiece's sign, and found in the text before that is put there.
      special_.add(!is_control && is_added(i) ? bytes_of_token_[i] : vocab_.tokens[i], properties[i], is_control);
      continue;
    }
    BASS_ASSIGN_OR_RETURN(const std::string text, normalizer_->apply(vocab_.tokens[i]));
    normalized_special_.add(text, properties[i], is_control);
    // A chat template puts a control token's own text into a prompt, which is normalised with it.
    if (!is_control) bytes_of_token_[i] = rules_.is_byte_level ? text : with_spaces(text);
  }
  return ok_status();
}

/// Of equal texts the first one counts.
PieceVocab Tokenizer::make_piece_vocab() const {
  PieceVocab pieces;
  pieces.is_byte_level = rules_.is_byte_level;
  pieces.ignores_merges = rules_.ignores_merges;
  pieces.fuses_unknown = rules_.fuses_unknown;
  pieces.scores = vocab_.scores;
  pieces.byte_ids.fill(kNoToken);
  if (vocab_.unknown_id.has_value()) pieces.unknown_id = *vocab_.unknown_id;
  const bool needs_texts = !rules_.is_byte_level || rules_.ignores_merges;
  bool is_cut = true;
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const TokenType type = type_of(i);
    const std::string_view text = rules_.is_byte_level ? bytes_of_token_[i] : vocab_.tokens[i];
    if (type == TokenType::kUnknown && pieces.unknown_id == kNoToken) pieces.unknown_id = id;
    if (type == TokenType::kByte && !rules_.is_byte_level) {
      const std::optional<uint8_t> byte = byte_of(vocab_.tokens[i]);
      if (byte.has_value()) pieces.byte_ids[*byte] = id;
      if (rules_.piece_model != PieceModel::kUnigram) continue;  // there its text is a text like others
    }
    if (is_control_[i] || text.empty()) continue;
    if (needs_texts) pieces.id_of_text.emplace(text, id);
    if (type == TokenType::kUserDefined && !is_added(i)) pieces.user_defined.emplace_back(text, id);
    if (type == TokenType::kUnused) {
      pieces.is_unused.resize(vocab_.tokens.size());
      pieces.is_unused[i] = true;
    }
    size_t n_spaces = 0;
    while (text.substr(n_spaces).starts_with(kMetaSpace)) n_spaces += kMetaSpace.size();
    is_cut = is_cut && text.find(kMetaSpace, n_spaces) == text.npos;
  }
  pieces.is_cut_at_spaces =
      is_cut && !rules_.is_byte_level && !rules_.ignores_merges && pieces.id_of_text.contains(kMetaSpace);
  set_score_range(pieces);
  return pieces;
}

/// SentencePiece looks at normal tokens only, Hugging Face at all.
void Tokenizer::set_score_range(PieceVocab& pieces) const {
  bool is_empty = true;
  for (size_t i = 0; i < vocab_.scores.size(); ++i) {
    if (rules_.piece_model != PieceModel::kUnigram && type_of(i) != TokenType::kNormal) continue;
    const double score = vocab_.scores[i];
    pieces.min_score = is_empty ? score : std::min(pieces.min_score, score);
    pieces.max_score = std::max(pieces.max_score, score);  // at least 0, as in SentencePiece
    is_empty = false;
  }
}

// Three bytes are one at most in NFC and NFD: of signs that stand for a letter (U+212A is K), and of syllables that
// were spelt in three parts (Hangul).
int TokenizerRules::most_shrinking() const {
  constexpr int kOfCanonicalForms = 3;
  int factor = 1;
  for (const NormalizeStep& step : normalizer) {
    using Kind = NormalizeStep::Kind;
    const bool is_canonical = step.kind == Kind::kNfc || step.kind == Kind::kNfd;
    const bool replaces_by_longer = step.is_literal && step.content.size() >= step.pattern.size();
    const bool is_plain = step.kind == Kind::kSentencePiece && step.content.empty() && !step.removes_extra_whitespaces;
    if (is_canonical) factor *= kOfCanonicalForms;
    if (!is_canonical && !is_plain && step.kind != Kind::kPrepend &&
        !(step.kind == Kind::kReplace && replaces_by_longer))
      return 0;
  }
  const auto removes = [](const SplitStep& step) { return step.behavior == SplitBehavior::kRemoved; };
  const auto strips = [](const AddedToken& token) { return token.strips_left || token.strips_right; };
  const bool drops = std::ranges::any_of(pre_tokenizer, removes) || std::ranges::any_of(added_tokens, strips);
  return drops ? 0 : factor;
}

Status Tokenizer::make_encoder() {
  PieceVocab pieces = make_piece_vocab();
  if (rules_.is_byte_level) {
    const ByteLevelMap map;
    std::unordered_map<std::string_view, TokenId> id_of_spelling;
    for (size_t i = vocab_.tokens.size(); i-- > 0;) id_of_spelling[vocab_.tokens[i]] = static_cast<TokenId>(i);
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = id_of_spelling.find(map.spell(static_cast<uint8_t>(byte)));
      if (found != id_of_spelling.end()) pieces.byte_ids[static_cast<size_t>(byte)] = found->second;
      if (found == id_of_spelling.end() && is_ordinary(byte)) {
        return error(
            fmt::format("the vocabulary has no token for byte 0x{:02X}: it is no byte-level vocabulary", byte));
      }
    }
  }
  token_of_byte_ = pieces.byte_ids;
  const bool has_all_bytes = std::ranges::count(pieces.byte_ids, kNoToken) == 0;
  const bool is_sentencepiece = rules_.piece_model != PieceModel::kMergeRanks;
  pieces.has_byte_fallback = rules_.has_byte_fallback && (has_all_bytes || !is_sentencepiece);
  const bool has_all_texts = rules_.is_byte_level || (pieces.has_byte_fallback && has_all_bytes);
  most_shrinking_ = has_all_texts && !vocab_.strips_behind_special ? rules_.most_shrinking() : 0;
  if (is_sentencepiece && pieces.unknown_id == kNoToken && !pieces.has_byte_fallback) {
    return error("the vocabulary has no unknown token");
  }
  if (rules_.piece_model == PieceModel::kMergeRanks) {
    BASS_ASSIGN_OR_RETURN(BpeMerges merges, make_merges());
    encoder_ = make_rank_encoder(std::move(pieces), std::move(merges));
    return ok_status();
  }
  if (rules_.piece_model != PieceModel::kUnigram) user_defined_ = ByteTrie(pieces.user_defined);
  if (rules_.piece_model == PieceModel::kMergeScores) {
    encoder_ = make_score_encoder(std::move(pieces));
  } else {
    if (rules_.piece_model == PieceModel::kUnigram) pieces.user_defined.clear();
    encoder_ = make_unigram_encoder(std::move(pieces), rules_.piece_model == PieceModel::kUnigramFloat);
  }
  return ok_status();
}

Result<BpeMerges> Tokenizer::make_merges() const {
  std::unordered_map<std::string_view, TokenId> id_of_text;
  id_of_text.reserve(vocab_.tokens.size());
  for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
    id_of_text.emplace(vocab_.tokens[i], static_cast<TokenId>(i));  // of equal texts the first one counts
  }
  BpeMerges merges;
  merges.reserve(vocab_.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < vocab_.merges.size(); ++rank) {
    const std::string_view merge = vocab_.merges[rank];
    const size_t space = merge.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == merge.size()) {
      return error_in_key(
          "merges", fmt::format("merge {} is '{}', need two tokens with a space between them", rank, printable(merge)));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const std::string_view parts[] = {left, right, joined};
    TokenId ids[3] = {};
    for (size_t i = 0; i < 3; ++i) {
      const auto found = id_of_text.find(parts[i]);
      if (found == id_of_text.end()) {
        return error_in_key("merges",
                            fmt::format("merge {} ('{}') needs the token '{}', which is not in the vocabulary", rank,
                                        printable(merge), printable(parts[i])));
      }
      ids[i] = found->second;
    }
    merges.add(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
  }
  return merges;
}

void Tokenizer::find_end_ids() {
  end_ids_ = vocab_.more_end_ids;
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

}  // namespace bass
