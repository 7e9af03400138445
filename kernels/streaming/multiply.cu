// y = act(a * b), b repeating along axes, by kernels/common/broadcast.cuh.
#include "kernels/streaming/multiply.h"

#include "kernels/common/launch_broadcast.h"

namespace mobicuda::kernels {
namespace {

struct Product {
  template <class R>
  __device__ R operator()(R a, R b) const {
    return a * b;
  }
};

}  // namespace

cudaError_t multiply(const MultiplyParams& p, const void* a, const void* b, void* y, const Launch& where) {
  return broadcast<Product>(p, p.elem, p.activation, a, b, y, where);
}

}  // namespace mobicuda::kernels
