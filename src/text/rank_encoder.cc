// Byte-pair merging in the order of a list of merges.
#include "text/piece_encoder.h"
#include "text/utf8.h"

namespace bass {
namespace {

class RankEncoder final : public PieceEncoder {
 public:
  RankEncoder(PieceVocab vocab, BpeMerges merges) : vocab_(std::move(vocab)), merges_(std::move(merges)) {}

  [[nodiscard]] std::unique_ptr<Session> start() const override { return std::make_unique<RankSession>(*this); }

 private:
  class RankSession final : public Session {
   public:
    explicit RankSession(const RankEncoder& encoder) : vocab_(encoder.vocab_), merger_(encoder.merges_) {}

    void encode(std::string_view piece, std::vector<TokenId>& out) override {
      for_each_word(piece, vocab_.is_cut_at_spaces, [&](std::string_view word) { encode_word(word, out); });
    }

   private:
    void encode_word(std::string_view word, std::vector<TokenId>& out) {
      if (cache_.find(word, out)) return;
      const size_t begin = out.size();
      if (vocab_.ignores_merges) {
        if (const auto found = vocab_.id_of_text.find(word); found != vocab_.id_of_text.end()) {
          out.push_back(found->second);
          cache_.keep(out, begin);
          return;
        }
      }
      symbols_.clear();
      if (vocab_.is_byte_level) {
        for (const char c : word) add_byte(c);
      } else {
        add_characters(word);
      }
      merger_.merge(symbols_, out);
      cache_.keep(out, begin);
    }

    bool add_byte(char c) {
      const TokenId id = vocab_.byte_ids[static_cast<unsigned char>(c)];
      if (id != kNoToken) symbols_.push_back(id);
      return id != kNoToken;
    }

    void add_characters(std::string_view word) {
      bool is_after_unknown = false;
      while (!word.empty()) {
        const std::string_view c = word.substr(0, first_utf8_char(word).n_bytes);
        word.remove_prefix(c.size());
        const bool was_unknown = is_after_unknown;
        is_after_unknown = false;
        if (const auto found = vocab_.id_of_text.find(c); found != vocab_.id_of_text.end()) {
          symbols_.push_back(found->second);
        } else if (!add_bytes(c) && vocab_.unknown_id != kNoToken) {
          if (!was_unknown || !vocab_.fuses_unknown) symbols_.push_back(vocab_.unknown_id);
          is_after_unknown = true;
        }
      }
    }

    /// All bytes of a character, or none.
    bool add_bytes(std::string_view c) {
      if (!vocab_.has_byte_fallback) return false;
      const size_t n_before = symbols_.size();
      for (const char byte : c) {
        if (add_byte(byte)) continue;
        symbols_.resize(n_before);
        return false;
      }
      return true;
    }

    const PieceVocab& vocab_;
    BpeMerger merger_;
    PieceCache cache_;
    std::vector<TokenId> symbols_;
  };

  PieceVocab vocab_;
  BpeMerges merges_;
};

}  // namespace

std::unique_ptr<PieceEncoder> make_rank_encoder(PieceVocab vocab, BpeMerges merges) {
  return std::make_unique<RankEncoder>(std::move(vocab), std::move(merges));
}

}  // namespace bass
