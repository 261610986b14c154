#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <tuple>

#include "cli/bench/kernel_inputs.h"
#include "cli/bench/kernel_ops.h"
#include "kernels/cpu/pack.h"
#include "kernels/reference/reference.h"

namespace bass {
namespace {

struct Matrices {
  const MatrixRef* first = nullptr;  // in the file
  std::vector<cpu::PackedMatrix> packed;
};
using MatricesByShape = std::map<std::tuple<DType, int, int>, Matrices>;

MatricesByShape find_matrices(const ModelFile& file, const cpu::CpuModel& model) {
  MatricesByShape found;
  const auto add = [&](const MatrixRef& ref, const cpu::PackedMatrix& packed) {
    if (ref.n_out == 0) return;
    Matrices& matrices = found[{ref.type, ref.n_out, ref.n_in}];
    if (matrices.first == nullptr) matrices.first = &ref;
    matrices.packed.push_back(packed);
  };
  for (int i = 0; i < file.config.n_layers; ++i) {
    const LayerRefs& refs = file.weights.layers[static_cast<size_t>(i)];
    const cpu::CpuLayer& layer = model.weights().layer(i);
    add(refs.q, layer.q);
    add(refs.k, layer.k);
    add(refs.v, layer.v);
    add(refs.output, layer.output);
    add(refs.gate, layer.gate);
    add(refs.up, layer.up);
    add(refs.down, layer.down);
  }
  add(file.weights.is_head_tied ? file.weights.embedding : file.weights.head, model.weights().head());
  return found;
}

/// What a matmul reads and writes.
struct MatmulState {
  Matrices matrices;
  MadeUpActivations x;
  std::vector<float> out;     // [n_rows, n_out]
  std::vector<size_t> calls;  // of each thread, kCallsStride apart

  static constexpr size_t kCallsStride = 8;  // a cache line
  MatmulState(const KernelInputs& inputs, Matrices the_matrices)
      : matrices(std::move(the_matrices)),
        x(*inputs.kernels, inputs.n_rows, matrices.first->n_in, inputs.n_planes),
        out(static_cast<size_t>(inputs.n_rows) * static_cast<size_t>(matrices.first->n_out)),
        calls(static_cast<size_t>(inputs.n_threads) * kCallsStride) {}
};

/// Some channels of the first and the last row, to the bit.
bool has_reference_bits(const KernelInputs& inputs, const MatmulState& state) {
  constexpr int kChannels = 48;
  const MatrixRef& ref = *state.matrices.first;
  const DTypeInfo& info = dtype_info(ref.type);
  const auto row_bytes = static_cast<size_t>(ref.n_in / info.block_len) * static_cast<size_t>(info.block_bytes);
  const int step = std::max(ref.n_out / kChannels, 1);
  for (const int row : {0, inputs.n_rows - 1}) {
    const float* x = state.x.rows().f32 + static_cast<ptrdiff_t>(row) * ref.n_in;
    const auto quantised = reference::quantise(x, ref.n_in, inputs.n_planes);
    for (int channel = 0; channel < ref.n_out; channel += step) {
      const std::byte* weights = ref.data.data() + static_cast<size_t>(channel) * row_bytes;
      const float expected = state.matrices.packed.front().is_quantised()
                                 ? reference::quantised_dot(ref.type, weights, quantised)
                                 : reference::float_dot(ref.type, weights, x, ref.n_in);
      const float got =
          state.out[static_cast<size_t>(row) * static_cast<size_t>(ref.n_out) + static_cast<size_t>(channel)];
      if (std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(expected)) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<KernelOp> matmul_ops(const KernelInputs& inputs) {
  std::vector<KernelOp> ops;
  for (auto& [shape, matrices] : find_matrices(*inputs.file, *inputs.model)) {
    const auto state = std::make_shared<MatmulState>(inputs, matrices);
    const cpu::PackedMatrix first = matrices.packed.front();
    KernelOp op;
    op.name = "matmul";
    op.shape = fmt::format("{} {}x{}", dtype_info(std::get<DType>(shape)).name, first.n_out, first.n_in);
    op.work.bytes = static_cast<double>(cpu::packed_bytes(std::get<DType>(shape), first.n_out, first.n_in));
    const bool is_quantised = first.is_quantised();
    op.work[is_quantised ? OperationClass::kInt8Dot : OperationClass::kF32Fma] =
        2.0 * inputs.n_rows * first.n_out * first.n_in * (is_quantised ? inputs.n_planes : 1);
    op.set_bytes = op.work.bytes * static_cast<double>(matrices.packed.size());
    op.run = [inputs, state](const TeamContext& context) {
      size_t& call = state->calls[static_cast<size_t>(context.thread_idx()) * MatmulState::kCallsStride];
      const cpu::PackedMatrix& w = state->matrices.packed[call++ % state->matrices.packed.size()];
      inputs.kernels->matmul(w, state->x.rows(), inputs.n_rows, context.share(w.n_tiles()), state->out.data(), w.n_out,
                             0, false, nullptr);
    };
    op.check = [inputs, state] {
      const cpu::PackedMatrix& w = state->matrices.packed.front();
      inputs.kernels->matmul(w, state->x.rows(), inputs.n_rows, {0, w.n_tiles()}, state->out.data(), w.n_out, 0, false,
                             nullptr);
      return has_reference_bits(inputs, *state);
    };
    ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace bass
