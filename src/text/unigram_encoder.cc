// Unigram: of all ways to write a piece as tokens, the one with the greatest sum of scores.
#include <algorithm>

#include "text/byte_trie.h"
#include "text/piece_encoder.h"
#include "text/utf8.h"

namespace bass {
namespace {

constexpr double kUnknownPenalty = 10;

ByteTrie make_trie(const PieceVocab& vocab) {
  std::vector<std::pair<std::string_view, int32_t>> texts(vocab.id_of_text.begin(), vocab.id_of_text.end());
  return ByteTrie(std::move(texts));
}

/// `Real`: what the reference keeps sums in. Equal sums and their roundings decide between ways that are as good.
template <class Real>
class UnigramEncoder final : public PieceEncoder {
 public:
  explicit UnigramEncoder(PieceVocab vocab) : vocab_(std::move(vocab)), trie_(make_trie(vocab_)) {
    is_user_defined_.resize(vocab_.scores.size());
    for (const auto& [text, id] : vocab_.user_defined) is_user_defined_[static_cast<size_t>(id)] = true;
  }

  [[nodiscard]] std::unique_ptr<Session> start() const override { return std::make_unique<UnigramSession>(*this); }

 private:
  class UnigramSession final : public Session {
   public:
    explicit UnigramSession(const UnigramEncoder& encoder) : encoder_(encoder) {}

    void encode(std::string_view piece, std::vector<TokenId>& out) override {
      best_.assign(piece.size() + 1, Best{});
      for (size_t begin = 0; begin < piece.size();) begin += extend(piece, begin);
      ways_.clear();
      for (size_t end = piece.size(); end > 0; end = best_[end].begin) ways_.push_back(end);
      std::ranges::reverse(ways_);
      put(piece, out);
    }

   private:
    struct Best {
      Real score = 0;  ///< of the best way to write what ends here
      TokenId id = kNoToken;
      uint32_t begin = kUnreached;  ///< of its last token
    };
    static constexpr uint32_t kUnreached = 0xFFFFFFFFu;

    void offer(size_t begin, size_t end, Real score, TokenId id) {
      Best& best = best_[end];
      if (best.begin != kUnreached && !(score > best.score)) return;
      best = {score, id, static_cast<uint32_t>(begin)};
    }

    /// All tokens that begin here. Returns the bytes of the character.
    size_t extend(std::string_view piece, size_t begin) {
      const PieceVocab& vocab = encoder_.vocab_;
      const size_t n_char_bytes = first_utf8_char(piece.substr(begin)).n_bytes;
      const Real before = best_[begin].score;
      bool has_char = false;
      ByteTrie::Node node = ByteTrie::kRoot;
      for (size_t end = begin; end < piece.size();) {
        node = encoder_.trie_.next(node, piece[end++]);
        if (node == ByteTrie::kNone) break;
        const TokenId id = encoder_.trie_.value(node);
        if (id == kNoToken || (!vocab.is_unused.empty() && vocab.is_unused[static_cast<size_t>(id)])) continue;
        const double score = encoder_.is_user_defined_[static_cast<size_t>(id)]
                                 ? static_cast<double>(end - begin) * vocab.max_score - 0.1  // better than any others
                                 : vocab.scores[static_cast<size_t>(id)];
        offer(begin, end, static_cast<Real>(score) + before, id);
        has_char = has_char || end - begin == n_char_bytes;
      }
      if (!has_char) {
        const Real unknown = static_cast<Real>(vocab.min_score) - static_cast<Real>(kUnknownPenalty);
        offer(begin, begin + n_char_bytes, unknown + before, vocab.unknown_id);
      }
      return n_char_bytes;
    }

    void put(std::string_view piece, std::vector<TokenId>& out) const {
      const PieceVocab& vocab = encoder_.vocab_;
      size_t begin = 0;
      for (size_t i = 0; i < ways_.size(); ++i) {
        const TokenId id = best_[ways_[i]].id;
        if (id == vocab.unknown_id) {  // neighbours are one unknown text
          while (i + 1 < ways_.size() && best_[ways_[i + 1]].id == vocab.unknown_id) ++i;
          put_unknown(piece.substr(begin, ways_[i] - begin), out);
        } else {
          out.push_back(id);
        }
        begin = ways_[i];
      }
    }

    void put_unknown(std::string_view text, std::vector<TokenId>& out) const {
      const PieceVocab& vocab = encoder_.vocab_;
      const auto byte_id = [&](char c) { return vocab.byte_ids[static_cast<unsigned char>(c)]; };
      if (const auto found = vocab.id_of_text.find(text); found != vocab.id_of_text.end()) {
        out.push_back(found->second);
      } else if (vocab.has_byte_fallback &&
                 std::ranges::none_of(text, [&](char c) { return byte_id(c) == kNoToken; })) {
        for (const char c : text) out.push_back(byte_id(c));
      } else {
        out.push_back(vocab.unknown_id);
      }
    }

    const UnigramEncoder& encoder_;
    std::vector<Best> best_;    // [piece bytes + 1]
    std::vector<size_t> ways_;  // ends of the tokens of the best way
  };

  PieceVocab vocab_;
  ByteTrie trie_;
  std::vector<bool> is_user_defined_;
};

}  // namespace

std::unique_ptr<PieceEncoder> make_unigram_encoder(PieceVocab vocab, bool is_float) {
  if (is_float) return std::make_unique<UnigramEncoder<float>>(std::move(vocab));
  return std::make_unique<UnigramEncoder<double>>(std::move(vocab));
}

}  // namespace bass
