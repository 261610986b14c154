// Attention of a made-up model on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/memory.h"
#include "base/thread_team.h"
#include "cli/bench/attention_bench.h"
#include "cli/bench/sized_limits.h"
#include "cli/bench/timing.h"
#include "executor/cpu/cpu_model.h"
#include "executor/cpu/forward.h"
#include "executor/executor.h"
#include "executor/step_profile.h"

namespace bass {
namespace {

constexpr int kLayers = kCpuAttentionLayers;
constexpr int kWidth = 32;  // of everything that is not attention

int n_pages_of(int n_tokens) { return (n_tokens + cpu::kKvPageLen - 1) / cpu::kKvPageLen; }

// A llama of zeros: its queries, keys and values do not matter to the time that attention takes.
ModelFile make_model(const AttentionShape& shape, int context_len, std::span<const std::byte> zeros) {
  ModelFile file;
  ModelConfig& config = file.config;
  config.name = "made up";
  config.architecture = "llama";
  config.n_layers = kLayers;
  config.d_model = config.d_ff = config.vocab_size = kWidth;
  config.n_heads = shape.n_heads;
  config.n_kv_heads = shape.n_kv_heads;
  config.head_dim = config.rope_dim = shape.head_dim;
  config.context_len = context_len;
  const auto matrix = [&](int n_out, int n_in) {
    const size_t n_bytes = sizeof(float) * static_cast<size_t>(n_out) * static_cast<size_t>(n_in);
    return MatrixRef{DType::kF32, n_out, n_in, zeros.first(n_bytes), {}, {}};
  };
  const NormRef norm{std::vector<float>(kWidth, 1.0F), {}};
  LayerRefs layer;
  layer.attention_norm = layer.feed_forward_norm = norm;
  layer.q = matrix(config.q_dim(), kWidth);
  layer.k = layer.v = matrix(config.kv_dim(), kWidth);
  layer.output = matrix(kWidth, config.q_dim());
  layer.gate = layer.up = layer.down = matrix(kWidth, kWidth);
  file.weights.layers.assign(kLayers, layer);
  file.weights.embedding = matrix(kWidth, kWidth);
  file.weights.is_head_tied = true;
  file.weights.output_norm = norm;
  return file;
}

class CpuAttentionBench final : public AttentionBench {
 public:
  /// Both outlive it.
  CpuAttentionBench(const cpu::Kernels* kernels, ThreadTeam* team) : kernels_(kernels), team_(team) {}
  Status load(const AttentionShape& shape, const AttentionRoom& room);

  Result<std::vector<AttentionTiming>> measure(std::span<const AttentionKind> kinds, std::span<const int> lens,
                                               int n_queries) override;

 private:
  void fill(cpu::CpuForward* forward, std::span<const int> lens, int n_queries);
  double round_seconds(cpu::CpuForward* forward, int n_passes);

  const cpu::Kernels* kernels_;
  ThreadTeam* team_;
  ModelFile file_;
  std::unique_ptr<cpu::CpuModel> model_;
  StepProfile profile_;
  std::vector<std::vector<PageId>> pages_;  // of each sequence of the batch that was filled last
};

Status CpuAttentionBench::load(const AttentionShape& shape, const AttentionRoom& room) {
  const std::vector<std::byte> zeros(sizeof(float) * static_cast<size_t>(kWidth) *
                                     static_cast<size_t>(std::max(shape.n_heads * shape.head_dim, kWidth)));
  file_ = make_model(shape, room.context_len, zeros);
  const auto n_pages = static_cast<int>(room.n_cached_tokens / cpu::kKvPageLen) + room.n_sequences;
  // The system promises more memory than there is and ends programs that take it.
  const int64_t n_bytes = n_pages * cpu_page_bytes(file_.config, shape.kv);
  if (const int64_t n_available = available_memory_bytes(); n_bytes > n_available) {
    return resource_exhausted(fmt::format(
        "the KV cache of these cases takes {} MiB, {} MiB are available; ask for fewer or shorter sequences",
        n_bytes >> 20, n_available >> 20));
  }
  BASS_ASSIGN_OR_RETURN(model_, cpu::CpuModel::load(file_, {shape.kv, n_pages, room.context_len}, team_));
  constexpr int kByte = 0x3C;  // repeated, a normal number in every type that the cache may have
  std::memset(model_->page(0), kByte, static_cast<size_t>(n_pages) * model_->page_bytes());
  model_->prepare_positions(room.context_len);
  profile_.set_n_threads(team_->n_threads());
  return ok_status();
}

void CpuAttentionBench::fill(cpu::CpuForward* forward, std::span<const int> lens, int n_queries) {
  pages_.assign(lens.size(), {});
  PageId next_page = 0;
  forward->reserve(lens.size(), static_cast<size_t>(n_pages_of(*std::max_element(lens.begin(), lens.end()))));
  forward->begin_batch();
  for (size_t i = 0; i < lens.size(); ++i) {
    for (int page = 0; page < n_pages_of(lens[i]); ++page) pages_[i].push_back(next_page++);
    forward->add_segment(lens[i] - n_queries, /*is_decode=*/true, pages_[i], lens[i]);
    for (int token = 0; token < n_queries; ++token) forward->add_token(0);
  }
  forward->end_batch();
}

double CpuAttentionBench::round_seconds(cpu::CpuForward* forward, int n_passes) {
  profile_.reset();
  team_->run([&](const TeamContext& context) {
    for (int i = 0; i < n_passes; ++i) forward->run(context);
  });
  profile_.end_step(/*is_decode=*/true);
  return profile_.part(StepPart::kAttention).seconds;
}

Result<std::vector<AttentionTiming>> CpuAttentionBench::measure(std::span<const AttentionKind> kinds,
                                                                std::span<const int> lens, int n_queries) {
  std::vector<std::unique_ptr<cpu::CpuForward>> layouts;
  cpu::ForwardOptions options;
  options.max_rows = static_cast<int>(lens.size()) * n_queries;
  options.n_threads = team_->n_threads();
  options.profile = &profile_;
  options.own_rows = false;  // the whole team attends to one batch, barriers included
  for (const AttentionKind kind : kinds) {
    options.attention = kind;
    layouts.push_back(std::make_unique<cpu::CpuForward>(model_.get(), kernels_, options));
    BASS_CHECK(layouts.back()->ok());
    fill(layouts.back().get(), lens, n_queries);
  }
  BASS_ASSIGN_OR_RETURN(const std::vector<double> seconds,
                        time_in_turns(kinds.size(), [&](size_t i, int n_passes) -> Result<double> {
                          return round_seconds(layouts[i].get(), n_passes);
                        }));
  std::vector<AttentionTiming> timings;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Work& work = layouts[i]->work()[static_cast<size_t>(StepPart::kAttention)];
    timings.push_back({seconds[i] / kLayers, Work{}.add(work, 1.0 / kLayers)});
  }
  return timings;
}

class CpuAttentionMachine final : public AttentionMachine {
 public:
  explicit CpuAttentionMachine(SizedLimits limits) : team_(limits.n_threads()), limits_(std::move(limits)) {}

  Result<std::unique_ptr<AttentionBench>> make_bench(const AttentionShape& shape, const AttentionRoom& room) override {
    return make_cpu_attention_bench(shape, room, &team_);
  }
  Result<MachineLimits> limits_of(const Work& work) override { return limits_.of(work.bytes * kLayers); }
  [[nodiscard]] nlohmann::ordered_json facts() const override {
    return {{"device", "cpu"}, {"n_threads", team_.n_threads()}};
  }

 private:
  ThreadTeam team_;
  SizedLimits limits_;
};

}  // namespace

Result<std::unique_ptr<AttentionBench>> make_cpu_attention_bench(const AttentionShape& shape, const AttentionRoom& room,
                                                                 ThreadTeam* team) {
  BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
  auto bench = std::make_unique<CpuAttentionBench>(kernels, team);
  BASS_RETURN_IF_ERROR(bench->load(shape, room));
  return std::unique_ptr<AttentionBench>(std::move(bench));
}

Result<std::unique_ptr<AttentionMachine>> make_cpu_attention_machine(int n_threads) {
  BASS_ASSIGN_OR_RETURN(SizedLimits limits, SizedLimits::measure(n_threads));
  return std::unique_ptr<AttentionMachine>(std::make_unique<CpuAttentionMachine>(std::move(limits)));
}

}  // namespace bass
