// Attention by itself, without a model: any heads, layouts and lengths, on the CPU or a GPU.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread_team.h"
#include "bass/engine.h"
#include "engine/machine.h"

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

/// Batches of so many sequences, of at most context_len tokens each and n_cached_tokens together, of which at most
/// n_queries are a step's.
struct AttentionRoom {
  int n_sequences = 0;
  int n_queries = 1;
  int context_len = 0;
  int64_t n_cached_tokens = 0;
};

class AttentionBench {
 public:
  virtual ~AttentionBench() = default;

  /// Each layout of `kinds` on sequences of `lens` cached tokens, the last n_queries of which are this batch's; rounds
  /// of the layouts alternate. Error: a GPU's.
  virtual Result<std::vector<AttentionTiming>> measure(std::span<const AttentionKind> kinds, std::span<const int> lens,
                                                       int n_queries) = 0;
};

/// What attention runs on, and what it could reach there.
class AttentionMachine {
 public:
  virtual ~AttentionMachine() = default;

  /// The machine outlives it. Error: no memory.
  virtual Result<std::unique_ptr<AttentionBench>> make_bench(const AttentionShape& shape,
                                                             const AttentionRoom& room) = 0;
  /// Of a layer's work.
  virtual Result<MachineLimits> limits_of(const Work& work) = 0;
  /// What --json says of the machine.
  [[nodiscard]] virtual nlohmann::ordered_json facts() const = 0;
};

Result<std::unique_ptr<AttentionMachine>> make_cpu_attention_machine(int n_threads);

/// The CPU's alone, on a team that outlives it. Keys and values of so many layers are read in turn.
Result<std::unique_ptr<AttentionBench>> make_cpu_attention_bench(const AttentionShape& shape, const AttentionRoom& room,
                                                                 ThreadTeam* team);
inline constexpr int kCpuAttentionLayers = 2;

/// How the lengths of a batch differ.
enum class LengthKind { kUniform, kBimodal, kExponential };
inline constexpr LengthKind kLengthKinds[] = {LengthKind::kUniform, LengthKind::kBimodal, LengthKind::kExponential};
std::string_view length_kind_name(LengthKind kind);

/// Lengths of `batch` sequences of about `mean` tokens, at least `min`: the middles of equal parts of the distribution,
/// so that no chance is in them. Uniform: from 0 to twice the mean. Bimodal: half of them a quarter, half 7 quarters of
/// it.
std::vector<int> make_lengths(LengthKind kind, int batch, int mean, int min);

}  // namespace bass
