#include "base/numa.h"

#include <gtest/gtest.h>
#include <numa.h>
#include <numaif.h>
#include <unistd.h>

#include <cstddef>
#include <set>

#include "base/aligned_buffer.h"

namespace bass {
namespace {

constexpr size_t kSize = 4 * AlignedBuffer::kHugePagesFrom;

int policy_at(const void* data) {
  int policy = -1;
  ::get_mempolicy(&policy, nullptr, 0, const_cast<void*>(data), MPOL_F_ADDR);
  return policy;
}

// Of each MiB's first byte, which is touched.
std::set<int> nodes_of(const AlignedBuffer& buffer) {
  std::set<int> nodes;
  for (size_t at = 0; at < buffer.size_bytes(); at += size_t{1} << 20) {
    buffer.data()[at] = std::byte{1};
    int node = -1;
    ::get_mempolicy(&node, nullptr, 0, buffer.data() + at, MPOL_F_NODE | MPOL_F_ADDR);
    nodes.insert(node);
  }
  return nodes;
}

// Whose processors this thread may use.
unsigned n_nodes() {
  if (::numa_available() < 0) return 1;
  bitmask* nodes = ::numa_get_run_node_mask();
  const unsigned n = ::numa_bitmask_weight(nodes);
  ::numa_bitmask_free(nodes);
  return n;
}

TEST(Numa, LargeMemoryLiesOnAllNodes) {
  if (n_nodes() < 2) GTEST_SKIP() << "this machine, or what it lets programs see, has one NUMA node";
  const AlignedBuffer large(kSize);
  EXPECT_EQ(policy_at(large.data()), MPOL_INTERLEAVE);
  EXPECT_EQ(nodes_of(large).size(), n_nodes());
}

TEST(Numa, WorkspacesAndSmallMemoryLieWhereTheyAreTouched) {
  const AlignedBuffer workspace(kSize, AlignedBuffer::Use::kFewRows);
  const AlignedBuffer small(AlignedBuffer::kHugePagesFrom / 2);
  EXPECT_NE(policy_at(workspace.data()), MPOL_INTERLEAVE);
  EXPECT_NE(policy_at(small.data()), MPOL_INTERLEAVE);
}

TEST(Numa, OneNodeNeedsNoPolicy) {
  if (n_nodes() > 1) GTEST_SKIP() << "this machine has several NUMA nodes";
  const AlignedBuffer large(kSize);
  EXPECT_NE(policy_at(large.data()), MPOL_INTERLEAVE);
  EXPECT_EQ(nodes_of(large).size(), 1u);
}

}  // namespace
}  // namespace bass
