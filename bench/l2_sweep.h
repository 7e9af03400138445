#pragma once

#include <cuda_runtime_api.h>

namespace mobicuda::bench {

/// Enqueues a kernel that leaves the L2 cache full of lines that nothing else reads, clean ones: what runs behind it
/// finds none of its data there, and has nothing to write back but its own. Throws Error.
void sweep_l2(cudaStream_t stream);

}  // namespace mobicuda::bench
