#include "cli/bench/ceiling.h"

#include "cli/bench/kernel_inputs.h"
#include "cli/bench/timing.h"

namespace bass {

std::vector<DType> weight_formats() {
  constexpr uint32_t kMaxType = 64;
  std::vector<DType> formats;
  for (uint32_t type = 0; type < kMaxType; ++type) {
    if (find_dtype_info(type) != nullptr) formats.push_back(static_cast<DType>(type));
  }
  return formats;
}

double measure_ceiling_tops(const cpu::Kernels& kernels, DType type, int n_rows, int n_planes, ThreadTeam* team) {
  constexpr int kTiles = 2;
  constexpr int kCallsATime = 64;  // so that barriers do not count
  const bool is_quantised = cpu::PackedMatrix{type, 0, 0, nullptr}.is_quantised();
  const int n_in = is_quantised ? 512 : 64;  // with 32 rows together below 32 KiB
  const int n_out = kTiles * cpu::kTileLen;
  const MadeUpWeights weights(type, n_out, n_in);
  const MadeUpActivations x(kernels, n_rows, n_in, n_planes);
  const size_t out_len = static_cast<size_t>(n_rows) * n_out;
  std::vector<float> out(out_len * static_cast<size_t>(team->n_threads()));
  const Timing timing = time_on_team(team, [&](const TeamContext& context) {
    float* mine = out.data() + static_cast<size_t>(context.thread_idx()) * out_len;
    const cpu::ProductScope scope(kernels);
    for (int i = 0; i < kCallsATime; ++i) {
      kernels.matmul(weights.matrix(), x.rows(), n_rows, {0, kTiles}, mine, n_out, 0, false, nullptr);
    }
  });
  const double operations = 2.0 * n_rows * n_out * n_in * kCallsATime * team->n_threads();
  return operations * (is_quantised ? n_planes : 1) / timing.best_s * 1e-12;
}

}  // namespace bass
