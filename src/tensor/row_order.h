// The order in which a matrix's rows are taken.
#pragma once

namespace bass {

/// Kernels rotate neighbouring pairs (rope). Where a file's heads have the two of a pair half a head apart, the rows of
/// q and k are taken so that pairs are neighbours: dot products of heads do not change.
struct RowOrder {
  int head_dim = 0;  // 0: the file's order
  int rope_dim = 0;  // leading rows of a head that are rotated

  /// Where row `row` lies in the file.
  [[nodiscard]] int file_row(int row) const {
    if (head_dim == 0 || row % head_dim >= rope_dim) return row;
    const int i = row % head_dim;
    return row - i + i / 2 + i % 2 * (rope_dim / 2);
  }
};

}  // namespace bass
