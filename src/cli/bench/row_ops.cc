#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "cli/bench/kernel_inputs.h"
#include "cli/bench/kernel_ops.h"
#include "kernels/reference/reference.h"

namespace bass {
namespace {

bool same_bits(const float* a, const float* b, int n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

/// Whether the first row's scales and sums are the reference's.
bool has_groups(const cpu::ActivationRows& rows, const reference::QuantisedRow& expected) {
  for (size_t g = 0; g < expected.scale.size(); ++g) {
    const auto field = [&](cpu::ActivationField which) {
      const size_t at = cpu::activation_field_offset(rows.n_planes, which, 0);
      return reinterpret_cast<const float*>(rows.record(0, static_cast<int>(g)) + at);
    };
    if (!same_bits(field(cpu::ActivationField::kScale), &expected.scale[g], 1) ||
        !same_bits(field(cpu::ActivationField::kScaledSum), &expected.scaled_sum[g], 1)) {
      return false;
    }
  }
  return true;
}

/// Rows of numbers in and out.
struct RowState {
  std::vector<float> in, in2, out;
  MadeUpActivations activations;

  RowState(const KernelInputs& inputs, int n_cols)
      : in(made_up_floats(static_cast<size_t>(inputs.n_rows) * static_cast<size_t>(n_cols))),
        in2(in.rbegin(), in.rend()),
        out(in.size()),
        activations(*inputs.kernels, inputs.n_rows, n_cols, inputs.n_planes) {}
};

/// An operation that threads do row by row; `bytes` and `operations` of a row.
KernelOp make_row_op(const KernelInputs& inputs, std::string name, int n_cols, double bytes, double operations,
                     const std::function<void(int row)>& row) {
  KernelOp op;
  op.name = std::move(name);
  op.shape = fmt::format("{}", n_cols);
  op.work.bytes = op.set_bytes = bytes * inputs.n_rows;
  op.work[OperationClass::kF32Fma] = operations * inputs.n_rows;
  op.run = [n_rows = inputs.n_rows, row](const TeamContext& context) {
    const WorkRange mine = context.share(n_rows);
    for (int i = mine.begin; i < mine.end; ++i) row(i);
  };
  return op;
}

KernelOp norm_op(const KernelInputs& inputs) {
  const int n = inputs.file->config.d_model;
  const float eps = inputs.file->config.norm_eps;
  const float* weight = inputs.model->weights().output_norm().weight;
  const auto state = std::make_shared<RowState>(inputs, n);
  const cpu::Kernels& kernels = *inputs.kernels;
  const auto row = [&kernels, state, weight, n, eps](int i) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(i) * n;
    kernels.rms_norm(state->in.data() + at, weight, n, eps, state->out.data() + at);
    kernels.quantise(state->out.data() + at, n, {i, i + 1}, {0, n}, state->activations.rows());
  };
  KernelOp op = make_row_op(inputs, "norm and quantise", n, 3.0 * n * sizeof(float), 6.0 * n, row);
  op.check = [state, row, weight, n, eps, n_planes = inputs.n_planes] {
    row(0);
    std::vector<float> expected(static_cast<size_t>(n));
    reference::rms_norm(state->in.data(), weight, n, eps, expected.data());
    if (!same_bits(expected.data(), state->out.data(), n)) return false;
    if (n % kGroupLen != 0) return true;
    const reference::QuantisedRow quantised = reference::quantise(expected.data(), n, n_planes);
    return has_groups(state->activations.rows(), quantised);
  };
  return op;
}

KernelOp silu_op(const KernelInputs& inputs) {
  constexpr double kOperations = 20;  // an exponential is a polynomial
  const int n = inputs.file->config.d_ff;
  const auto state = std::make_shared<RowState>(inputs, n);
  const auto silu = inputs.kernels->activate[static_cast<size_t>(cpu::Activation::kSilu)];
  const auto row = [silu, state, n](int i) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(i) * n;
    silu(state->in.data() + at, state->in2.data() + at, n, state->out.data() + at);
  };
  KernelOp op = make_row_op(inputs, "silu", n, 3.0 * n * sizeof(float), kOperations * n, row);
  op.check = [state, row, n] {
    row(0);
    std::vector<float> expected(static_cast<size_t>(n));
    reference::activate(cpu::Activation::kSilu, state->in.data(), state->in2.data(), n, expected.data());
    return same_bits(expected.data(), state->out.data(), n);
  };
  return op;
}

KernelOp rope_op(const KernelInputs& inputs) {
  const ModelConfig& config = inputs.file->config;
  const int n_heads = config.n_heads + config.n_kv_heads;
  const int n = n_heads * config.head_dim;
  const auto state = std::make_shared<RowState>(inputs, n);
  const cpu::Kernels& kernels = *inputs.kernels;
  const int dim = config.rope_dim;
  const float *cos_pairs = inputs.model->rope_cos(1), *sin_pairs = inputs.model->rope_sin(1);
  const auto row = [&kernels, state, n, n_heads, dim, cos_pairs, sin_pairs, head_dim = config.head_dim](int i) {
    float* heads = state->in.data() + static_cast<ptrdiff_t>(i) * n;
    for (int head = 0; head < n_heads; ++head) kernels.rope(heads + head * head_dim, dim, cos_pairs, sin_pairs);
  };
  KernelOp op = make_row_op(inputs, "rope", n, 2.0 * n * sizeof(float), 3.0 * dim * n_heads, row);
  op.check = [state, row, dim, cos_pairs, sin_pairs] {
    std::vector<float> expected(state->in.begin(), state->in.begin() + dim);
    reference::rope(expected.data(), dim, cos_pairs, sin_pairs);
    row(0);
    return same_bits(expected.data(), state->in.data(), dim);
  };
  return op;
}

KernelOp write_kv_op(const KernelInputs& inputs) {
  const ModelConfig& config = inputs.file->config;
  const int n = config.kv_dim();
  const auto state = std::make_shared<RowState>(inputs, n);
  const cpu::Kernels& kernels = *inputs.kernels;
  const cpu::CpuModel& model = *inputs.model;
  const auto write = [state, &config, &model, n](const cpu::Kernels& table, int i, PageId page) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(i) * n;
    for (int head = 0; head < config.n_kv_heads; ++head) {
      table.write_kv(model.kv_shape(), state->in.data() + at + head * config.head_dim,
                     state->in2.data() + at + head * config.head_dim, i % cpu::kKvPageLen,
                     model.page(page) + model.head_offset(0, head));
    }
  };
  const auto row = [&kernels, write](int i) { write(kernels, i, i / cpu::kKvPageLen); };
  KernelOp op = make_row_op(inputs, "write kv", n, 4.0 * n * sizeof(float), 0, row);
  op.check = [&kernels, &model, write] {  // the plain loops of the scalar table
    const PageId other = model.n_pages() - 1;
    std::memset(model.page(0), 0, model.page_bytes());
    std::memset(model.page(other), 0, model.page_bytes());
    write(kernels, 0, 0);
    write(*cpu::find_kernels(cpu::Isa::kScalar), 0, other);
    return std::memcmp(model.page(0), model.page(other), model.page_bytes()) == 0;
  };
  return op;
}

}  // namespace

std::vector<KernelOp> row_ops(const KernelInputs& inputs) {
  std::vector<KernelOp> ops;
  ops.push_back(norm_op(inputs));
  ops.push_back(silu_op(inputs));
  ops.push_back(rope_op(inputs));
  ops.push_back(write_kv_op(inputs));
  return ops;
}

}  // namespace bass
