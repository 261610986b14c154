// What a model says of given texts, for those who train a draft for it: hidden states and likely next tokens.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executor/cpu/forward.h"
#include "kernels/sampling/distribution.h"

namespace bass::cpu {

struct FeatureOptions {
  std::vector<int32_t> layers;  // whose output is wanted, ascending
  int n_top = 0;                // likely next tokens of each position, at most the vocabulary
  int n_threads = 1;
};

/// Of one text, position by position.
struct TextFeatures {
  std::vector<uint16_t> taps;       // bfloat16 [n_tokens, n_layers, d_model]
  std::vector<TokenId> top_ids;     // [n_tokens - first_top, n_top], the likeliest first
  std::vector<float> top_logprobs;  // [n_tokens - first_top, n_top] natural log, temperature 1; -inf: there are fewer
};

/// Runs texts through a model as their prompts would be, with the same bits. Not for several threads at once: it has a
/// team of its own.
class FeatureReader {
 public:
  /// file: outlives the reader. Texts have at most max_text_len tokens.
  static Result<std::unique_ptr<FeatureReader>> create(const ModelFile& file, const FeatureOptions& options,
                                                       int max_text_len);

  /// tokens: at least one, ids of the vocabulary. first_top: 0 .. tokens.size(), the position from which on likely next
  /// tokens are wanted; nothing is spent on the head before it. The result is valid until the next call.
  const TextFeatures& read(std::span<const TokenId> tokens, int first_top);

 private:
  static constexpr int kMaxRows = 512;  // of a pass

  FeatureReader(const ModelFile& file, const FeatureOptions& options);
  void read_chunk(std::span<const TokenId> tokens, int start);
  void copy_taps(int position);
  /// at: the row's place among those that have likely tokens
  void find_top(RowSampler& sampler, std::vector<RowSampler::Candidate>& best, const float* logits, int at);

  FeatureOptions options_;
  int n_tokens_;  // of the vocabulary
  ThreadTeam team_;
  std::unique_ptr<CpuModel> model_;
  std::unique_ptr<CpuForward> forward_;
  std::vector<std::unique_ptr<RowSampler>> samplers_;     // [n_threads]
  std::vector<std::vector<RowSampler::Candidate>> best_;  // [n_threads] scratch
  std::vector<PageId> pages_;
  int max_text_len_ = 0;
  int text_len_ = 0;  // of the text that is read
  int first_top_ = 0;
  AlignedBuffer logits_;  // float [kLogitsBlockRows, vocab_size]
  TextFeatures features_;
};

}  // namespace bass::cpu
