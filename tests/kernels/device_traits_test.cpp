#include "kernels/common/device_traits.h"

#include <cuda_runtime_api.h>

#include "support/catch.h"
#include "support/gpu_traits.h"

namespace mobicuda {
namespace {

using kernels::DeviceTraits;

TEST_CASE("the GPU's traits are those that the table of limits has for its capability") {
  const DeviceTraits gpu = test::gpu_traits();
  CAPTURE(gpu.capability, gpu.code, gpu.wgmma_code, gpu.cluster_blocks);
  REQUIRE(gpu.code >= 75);
  REQUIRE(gpu.code <= gpu.capability);
  DeviceTraits expected = kernels::traits_of(gpu.capability, gpu.multiprocessors, gpu.code);
  expected.wgmma_code = gpu.wgmma_code;  // whether it is compiled is the build's choice
  CHECK(gpu.shared_bytes_per_block == expected.shared_bytes_per_block);
  CHECK(gpu.shared_bytes_per_multiprocessor == expected.shared_bytes_per_multiprocessor);
  CHECK(gpu.reserved_shared_bytes == expected.reserved_shared_bytes);
  CHECK(gpu.cluster_blocks == expected.cluster_blocks);
  CHECK(gpu.large_cluster_blocks >= gpu.cluster_blocks);
  CHECK(gpu.large_cluster_blocks <= expected.large_cluster_blocks);
  CHECK((!gpu.wgmma_code || gpu.capability == 90));
}

TEST_CASE("asking for a device's traits leaves the current device as it was") {
  int before = -1;
  REQUIRE(cudaGetDevice(&before) == cudaSuccess);
  DeviceTraits traits;
  CHECK(kernels::device_traits(1 << 20, traits) != cudaSuccess);
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  for (int device = 0; device < devices; ++device) CHECK(kernels::device_traits(device, traits) == cudaSuccess);
  int after = -1;
  REQUIRE(cudaGetDevice(&after) == cudaSuccess);
  CHECK(after == before);
  cudaGetLastError();
}

}  // namespace
}  // namespace mobicuda
