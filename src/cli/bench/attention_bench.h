// The attention of a made-up model: any heads, layouts and lengths, and no weights to speak of.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "executor/cpu/cpu_model.h"
#include "executor/cpu/forward.h"
#include "executor/step_profile.h"

namespace bass {

struct AttentionShape {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  KvKind kv = KvKind::kInt16;
};

/// One layer's attention of one batch.
struct AttentionTiming {
  double median_s = 0;  // of a number of rounds
  Work work;
};

class AttentionBench {
 public:
  /// Room for `n_cached_tokens` in all, in sequences of at most `context_len`. Error: no memory. The team must outlive
  /// the bench.
  static Result<std::unique_ptr<AttentionBench>> create(const AttentionShape& shape, int max_batch, int context_len,
                                                        int64_t n_cached_tokens, ThreadTeam* team);

  /// Each layout of `kinds` on sequences of `lens` cached tokens, the last n_queries of which are this batch's; rounds
  /// of the layouts alternate.
  std::vector<AttentionTiming> measure(std::span<const AttentionKind> kinds, std::span<const int> lens, int n_queries);

  static constexpr int kLayers = 2;  ///< whose keys and values are read in turn

 private:
  AttentionBench() = default;
  void fill(cpu::CpuForward* forward, std::span<const int> lens, int n_queries);
  double round_seconds(cpu::CpuForward* forward, int n_passes);

  const cpu::Kernels* kernels_ = nullptr;
  ThreadTeam* team_ = nullptr;
  ModelFile file_;
  std::unique_ptr<cpu::CpuModel> model_;
  StepProfile profile_;
  std::vector<std::vector<PageId>> pages_;  // of each sequence of the batch that was filled last
};

/// How the lengths of a batch differ.
enum class LengthKind { kUniform, kBimodal, kExponential };
inline constexpr LengthKind kLengthKinds[] = {LengthKind::kUniform, LengthKind::kBimodal, LengthKind::kExponential};
std::string_view length_kind_name(LengthKind kind);

/// Lengths of `batch` sequences of about `mean` tokens, at least `min`: the middles of equal parts of the distribution,
/// so that no chance is in them. Uniform: from 0 to twice the mean. Bimodal: half of them a quarter, half 7 quarters of
/// it.
std::vector<int> make_lengths(LengthKind kind, int batch, int mean, int min);

}  // namespace bass
