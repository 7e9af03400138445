// Launches of thread block clusters (sm_90+).
#pragma once

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// Attributes of a launch of clusters of `blocks`, and of programmatic dependence.
class ClusterConfig {
 public:
  ClusterConfig(dim3 grid, dim3 block, std::size_t shared_bytes, unsigned blocks, const Launch& where) {
    attributes_[0].id = cudaLaunchAttributeClusterDimension;
    attributes_[0].val.clusterDim = {blocks, 1, 1};
    attributes_[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes_[1].val.programmaticStreamSerializationAllowed = 1;
    config_.gridDim = grid;
    config_.blockDim = block;
    config_.dynamicSmemBytes = shared_bytes;
    config_.stream = where.stream;
    config_.attrs = attributes_;
    config_.numAttrs = where.programmatic ? 2 : 1;
  }
  ClusterConfig(const ClusterConfig&) = delete;  // the configuration has the attributes' address
  ClusterConfig& operator=(const ClusterConfig&) = delete;

  const cudaLaunchConfig_t* get() const { return &config_; }

 private:
  cudaLaunchAttribute attributes_[2]{};
  cudaLaunchConfig_t config_{};
};

/// Lets a kernel have clusters of up to DeviceTraits::large_cluster_blocks. Call before launch_clusters(); cheap when
/// repeated.
template <class Kernel>
cudaError_t allow_large_clusters(Kernel* kernel) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

/// Like launch(); the grid is a multiple of `blocks`, those of a cluster.
template <class... Parameters, class... Arguments>
cudaError_t launch_clusters(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                            unsigned blocks, const Launch& where, Arguments&&... arguments) {
  if (blocks == 1) return launch(kernel, grid, block, shared_bytes, where, static_cast<Arguments&&>(arguments)...);
  const ClusterConfig config(grid, block, shared_bytes, blocks, where);
  return cudaLaunchKernelEx(config.get(), kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace mobicuda::kernels
