#include "base/numa.h"

#include <numa.h>
#include <numaif.h>

namespace bass {
namespace {

bool has_own_policy() {
  int policy = MPOL_DEFAULT;
  return ::get_mempolicy(&policy, nullptr, 0, nullptr, 0) != 0 || policy != MPOL_DEFAULT;
}

// Nodes whose processors and memory this thread may use. Never freed: it is kept for as long as the program runs.
const bitmask* nodes_in_use() {
  if (::numa_available() < 0 || has_own_policy()) return nullptr;
  bitmask* nodes = ::numa_get_run_node_mask();
  bitmask* with_memory = ::numa_get_mems_allowed();
  for (unsigned node = 0; node < nodes->size; ++node) {
    if (!::numa_bitmask_isbitset(with_memory, node)) ::numa_bitmask_clearbit(nodes, node);
  }
  ::numa_bitmask_free(with_memory);
  return nodes;
}

}  // namespace

void spread_over_nodes(void* data, size_t n_bytes) {
  static const bitmask* const kNodes = nodes_in_use();
  if (kNodes == nullptr || ::numa_bitmask_weight(kNodes) < 2) return;
  ::mbind(data, n_bytes, MPOL_INTERLEAVE, kNodes->maskp, kNodes->size + 1, 0);  // a hint
}

}  // namespace bass
