#include <fmt/format.h>

#include <bit>
#include <memory>

#include "cli/bench/kernel_inputs.h"
#include "cli/bench/kernel_ops.h"
#include "kernels/sampling/distribution.h"

namespace bass {
namespace {

/// Logits of n_rows rows, and a sampler for each thread and one of the plain loops.
struct VocabularyState {
  int n;
  std::vector<float> logits;                          // [n_rows, n]
  std::vector<float> results;                         // [n_rows]
  std::vector<std::unique_ptr<RowSampler>> samplers;  // [n_threads]
  RowSampler reference;

  explicit VocabularyState(const KernelInputs& inputs)
      : n(inputs.file->config.vocab_size),
        logits(made_up_floats(static_cast<size_t>(inputs.n_rows) * static_cast<size_t>(n))),
        results(static_cast<size_t>(inputs.n_rows)),
        reference(cpu::find_kernels(cpu::Isa::kScalar), n) {
    constexpr float kSpread = 4;  // a model's logits differ by more than 1
    for (float& logit : logits) logit *= kSpread;
    for (int i = 0; i < inputs.n_threads; ++i) samplers.push_back(std::make_unique<RowSampler>(inputs.kernels, n));
  }
  [[nodiscard]] const float* row(int i) const { return logits.data() + static_cast<ptrdiff_t>(i) * n; }
};
using SharedState = std::shared_ptr<VocabularyState>;

/// A function of a row that gives a number; the scalar table must give the same bits.
using RowFunction = std::function<float(RowSampler&, const VocabularyState&, const float* logits)>;

KernelOp make_op(const KernelInputs& inputs, const SharedState& state, std::string name, double n_reads,
                 const RowFunction& function) {
  KernelOp op;
  op.name = std::move(name);
  op.shape = fmt::format("{}", state->n);
  op.work.bytes = op.set_bytes = n_reads * sizeof(float) * inputs.n_rows * state->n;
  op.run = [state, function, n_rows = inputs.n_rows](const TeamContext& context) {
    RowSampler& sampler = *state->samplers[static_cast<size_t>(context.thread_idx())];
    const WorkRange mine = context.share(n_rows);
    for (int i = mine.begin; i < mine.end; ++i) {
      state->results[static_cast<size_t>(i)] = function(sampler, *state, state->row(i));
    }
  };
  op.check = [state, function] {
    const float got = function(*state->samplers.front(), *state, state->row(0));
    const float expected = function(state->reference, *state, state->row(0));
    return std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(expected);
  };
  return op;
}

float select(RowSampler& sampler, const VocabularyState& state, const float* logits, const SamplingParams& params) {
  const RowDistribution row = sampler.build(logits, state.n, params, {}, Normalise::kYes);
  return row.kept.cut_value + row.log_norm;
}

/// The distribution of a row and a shifted one, so that some differences are positive.
cpu::ProbabilityRow probabilities(const float* logits, int n, float log_norm) { return {logits, n, {}, log_norm}; }

}  // namespace

std::vector<KernelOp> vocabulary_ops(const KernelInputs& inputs) {
  const auto state = std::make_shared<VocabularyState>(inputs);
  const RandomStream stream{.seed = 1, .position = 2};
  std::vector<KernelOp> ops;
  const auto add = [&](const char* name, double n_reads, const RowFunction& function) {
    ops.push_back(make_op(inputs, state, name, n_reads, function));
  };
  add("row_stats", 1, [](RowSampler& sampler, const VocabularyState& s, const float* logits) {
    const cpu::RowStats stats = sampler.kernels().row_stats(logits, s.n);
    return stats.log_sum_exp + static_cast<float>(stats.argmax);
  });
  add("gumbel_argmax", 1, [stream](RowSampler& sampler, const VocabularyState& s, const float* logits) {
    return static_cast<float>(sampler.kernels().gumbel_argmax(logits, s.n, {}, stream));
  });
  add("top-k 40", 1, [](RowSampler& sampler, const VocabularyState& s, const float* logits) {
    return select(sampler, s, logits, {.top_k = 40});
  });
  add("top-p 0.95", 1, [](RowSampler& sampler, const VocabularyState& s, const float* logits) {
    return select(sampler, s, logits, {.top_p = 0.95F});
  });
  add("residual_argmax", 2, [stream](RowSampler& sampler, const VocabularyState& s, const float* logits) {
    constexpr float kLogNorm = 11;
    const float* q = logits == s.row(0) ? s.logits.data() + s.logits.size() - static_cast<size_t>(s.n) : s.row(0);
    return static_cast<float>(sampler.kernels().residual_argmax(probabilities(logits, s.n, kLogNorm), 1,
                                                                probabilities(q, s.n, kLogNorm + 1), stream));
  });
  return ops;
}

}  // namespace bass
