// Where memory lies on machines of several NUMA nodes.
#pragma once

#include <cstddef>

namespace bass {

/// Spreads memory that nobody has touched yet page by page over the NUMA nodes whose processors this thread may use, so
/// that threads of all nodes read it at the speed of all of them; where it is first touched would decide else, mostly
/// one node. A hint: nothing is done where there is one node, where the process was started with a policy (`numactl`),
/// or where the system forbids it.
/// data: page-aligned
void spread_over_nodes(void* data, size_t n_bytes);

}  // namespace bass
