// SentencePiece's byte-pair merging: the neighbours whose text is the token of the best score are merged first.
#include <algorithm>

#include "text/byte_trie.h"
#include "text/piece_encoder.h"
#include "text/utf8.h"

namespace bass {
namespace {

constexpr int32_t kNone = -1;

class ScoreEncoder final : public PieceEncoder {
 public:
  explicit ScoreEncoder(PieceVocab vocab) : vocab_(std::move(vocab)), user_defined_(vocab_.user_defined) {}

  [[nodiscard]] std::unique_ptr<Session> start() const override { return std::make_unique<ScoreSession>(*this); }

 private:
  class ScoreSession final : public Session {
   public:
    explicit ScoreSession(const ScoreEncoder& encoder) : vocab_(encoder.vocab_), user_defined_(encoder.user_defined_) {}

    void encode(std::string_view piece, std::vector<TokenId>& out) override {
      for_each_word(piece, vocab_.is_cut_at_spaces, [&](std::string_view word) {
        if (cache_.find(word, out)) return;
        const size_t begin = out.size();
        encode_word(word, out);
        cache_.keep(out, begin);
      });
    }

   private:
    struct Symbol {
      uint32_t begin, n_bytes;  ///< of the word; 0 bytes once merged into the left neighbour
      int32_t prev, next;       ///< indices, or kNone
      bool is_frozen;           ///< a user-defined token: it merges with nothing
    };
    struct Candidate {
      double score;
      int32_t left, right;
      uint32_t n_bytes;  ///< of both when the candidate was found: it is stale if that changed
      /// For a heap: the best score is on top, the leftmost of equals.
      bool operator<(const Candidate& other) const {
        return score < other.score || (score == other.score && left > other.left);
      }
    };

    void encode_word(std::string_view word, std::vector<TokenId>& out) {
      word_ = word;
      symbols_.clear();
      heap_.clear();
      splits_.clear();
      split_symbols();
      const auto n = static_cast<int32_t>(symbols_.size());
      for (int32_t i = 0; i + 1 < n; ++i) consider(i, i + 1);
      while (!heap_.empty()) {
        const Candidate best = heap_.front();
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.pop_back();
        if (is_current(best)) merge(best);
      }
      is_after_unknown_ = false;
      for (int32_t i = n > 0 ? 0 : kNone; i != kNone; i = symbols_[static_cast<size_t>(i)].next) {
        put(text_of(symbols_[static_cast<size_t>(i)]), out);
      }
    }

    [[nodiscard]] std::string_view text_of(const Symbol& s) const { return word_.substr(s.begin, s.n_bytes); }

    /// Characters and user-defined tokens.
    void split_symbols() {
      for (size_t at = 0; at < word_.size();) {
        const std::string_view rest = word_.substr(at);
        const size_t n_defined = user_defined_.longest(rest).first;
        const size_t n_bytes = n_defined > 0 ? n_defined : first_utf8_char(rest).n_bytes;
        const auto i = static_cast<int32_t>(symbols_.size());
        const bool is_last = at + n_bytes == word_.size();
        symbols_.push_back(
            {static_cast<uint32_t>(at), static_cast<uint32_t>(n_bytes), i - 1, is_last ? kNone : i + 1, n_defined > 0});
        at += n_bytes;
      }
    }

    void consider(int32_t left_idx, int32_t right_idx) {
      if (left_idx == kNone || right_idx == kNone) return;
      const Symbol& left = symbols_[static_cast<size_t>(left_idx)];
      const Symbol& right = symbols_[static_cast<size_t>(right_idx)];
      if (left.is_frozen || right.is_frozen) return;
      const std::string_view text = word_.substr(left.begin, left.n_bytes + right.n_bytes);
      const auto found = vocab_.id_of_text.find(text);
      if (found == vocab_.id_of_text.end()) return;
      heap_.push_back(
          {vocab_.scores[static_cast<size_t>(found->second)], left_idx, right_idx, left.n_bytes + right.n_bytes});
      std::push_heap(heap_.begin(), heap_.end());
      if (is_unused(found->second)) splits_[text] = left.n_bytes;
    }

    [[nodiscard]] bool is_unused(TokenId id) const {
      return !vocab_.is_unused.empty() && vocab_.is_unused[static_cast<size_t>(id)];
    }

    [[nodiscard]] bool is_current(const Candidate& c) const {
      const Symbol& left = symbols_[static_cast<size_t>(c.left)];
      const Symbol& right = symbols_[static_cast<size_t>(c.right)];
      return left.n_bytes > 0 && right.n_bytes > 0 && left.n_bytes + right.n_bytes == c.n_bytes;
    }

    void merge(const Candidate& c) {
      Symbol& left = symbols_[static_cast<size_t>(c.left)];
      Symbol& right = symbols_[static_cast<size_t>(c.right)];
      left.n_bytes += right.n_bytes;
      left.next = right.next;
      if (right.next != kNone) symbols_[static_cast<size_t>(right.next)].prev = c.left;
      right.n_bytes = 0;
      consider(left.prev, c.left);
      consider(c.left, left.next);
    }

    /// The token of a symbol; an unused one is taken apart again as it was put together.
    void put(std::string_view text, std::vector<TokenId>& out) {
      const auto found = vocab_.id_of_text.find(text);
      if (found == vocab_.id_of_text.end()) {
        put_unknown(text, out);
        return;
      }
      const auto split = is_unused(found->second) ? splits_.find(text) : splits_.end();
      if (split != splits_.end()) {
        put(text.substr(0, split->second), out);
        put(text.substr(split->second), out);
        return;
      }
      out.push_back(found->second);
      is_after_unknown_ = false;
    }

    void put_unknown(std::string_view text, std::vector<TokenId>& out) {
      if (vocab_.has_byte_fallback) {
        for (const char c : text) out.push_back(vocab_.byte_ids[static_cast<unsigned char>(c)]);
        return;
      }
      if (!is_after_unknown_ && vocab_.unknown_id != kNoToken) out.push_back(vocab_.unknown_id);
      is_after_unknown_ = true;
    }

    const PieceVocab& vocab_;
    const ByteTrie& user_defined_;
    PieceCache cache_;
    std::string_view word_;
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
    std::unordered_map<std::string_view, uint32_t> splits_;  // of unused tokens: bytes of their left part
    bool is_after_unknown_ = false;
  };

  PieceVocab vocab_;
  ByteTrie user_defined_;
};

}  // namespace

std::unique_ptr<PieceEncoder> make_score_encoder(PieceVocab vocab) {
  return std::make_unique<ScoreEncoder>(std::move(vocab));
}

}  // namespace bass
