#include "lose_device.h"

namespace mobicuda::test {

__global__ void trap() { __trap(); }

cudaError_t lose_device() {
  trap<<<1, 1>>>();
  return cudaDeviceSynchronize();
}

}  // namespace mobicuda::test
