#include "lose_device.h"

namespace mobicuda::test {

namespace {

__global__ void trap() { __trap(); }

}  // namespace

cudaError_t lose_device() {
  trap<<<1, 1>>>();
  return cudaDeviceSynchronize();
}

}  // namespace mobicuda::test
