// Products of some rows of a batch with matrices of their own, behind their logits: what prompts add to a draft's head.
#include <algorithm>

#include "executor/cpu/forward.h"

namespace bass::cpu {
namespace {

/// Neighbouring rows of a block of logits that have the same matrix.
struct MoreRows {
  const PackedMatrix* matrix = nullptr;
  int first_row = 0;
  int n_rows = 0;
  int slot = 0;  // of the first row in the input
};

/// Calls visit for each of them, in order.
template <class Visit>
void for_each_run(std::span<const PackedMatrix* const> more, Visit visit) {
  MoreRows run;
  for (size_t i = 0; i < more.size(); i += static_cast<size_t>(run.n_rows)) {
    const auto rest = more.subspan(i);
    const auto end = std::find_if(rest.begin(), rest.end(), [&](const auto* matrix) { return matrix != rest[0]; });
    run.matrix = rest[0];
    run.first_row = static_cast<int>(i);
    run.n_rows = static_cast<int>(end - rest.begin());
    if (run.matrix == nullptr) continue;
    visit(run);
    run.slot += (run.n_rows + kRowBlock - 1) / kRowBlock * kRowBlock;
  }
}

}  // namespace

void CpuOps::norm_head_rows(std::span<const int> rows, std::span<const PackedMatrix* const> more) {
  const auto x = [&](int i) { return f_.result(rows[static_cast<size_t>(i)]); };
  if (context_.thread_idx() == 0) f_.next_chunks_.back().reset();
  const auto n_rows = static_cast<int>(rows.size());
  const WorkRange mine = share_rows(n_rows);
  norm_rows(mine, x, f_.model_->weights().output_norm(), mine.begin, f_.head_input(n_rows));
  for_each_run(more, [&](const MoreRows& run) {
    const WorkRange range{std::max(mine.begin, run.first_row), std::min(mine.end, run.first_row + run.n_rows)};
    norm_rows(range, x, f_.model_->weights().output_norm(), run.slot + range.begin - run.first_row,
              f_.more_input_.rows);
  });
}

// The tiles of all matrices, one after the other, are shared evenly: they are different for each prompt.
void CpuOps::multiply_more(std::span<const PackedMatrix* const> more, int row_len, float* out) {
  int n_tiles = 0;
  for_each_run(more, [&](const MoreRows& run) { n_tiles += run.matrix->n_tiles(); });
  const WorkRange mine = context_.share(n_tiles);
  int first = 0;
  for_each_run(more, [&](const MoreRows& run) {
    const WorkRange tiles{std::max(mine.begin - first, 0), std::min(mine.end - first, run.matrix->n_tiles())};
    first += run.matrix->n_tiles();
    if (context_.thread_idx() == 0) f_.count_more_head(*run.matrix, run.n_rows);
    if (tiles.begin >= tiles.end) return;
    float* behind = out + static_cast<ptrdiff_t>(run.first_row) * row_len + f_.model_->config().vocab_size;
    f_.kernels_->matmul(*run.matrix, rows_from(f_.more_input_.rows, run.slot), run.n_rows, tiles, behind, row_len, 0,
                        false, nullptr);
  });
}

}  // namespace bass::cpu
