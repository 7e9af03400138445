// y = act(max(a, b)) or act(min(a, b)), b repeating along axes, by kernels/common/broadcast.cuh.
#include "kernels/streaming/extremum.h"

#include "kernels/common/launch_broadcast.h"

namespace mobicuda::kernels {
namespace {

// Comparisons with NaN are false: b's NaN is taken by itself, a's has to be asked for. fmax() would drop either.
struct Max {
  template <class R>
  __device__ R operator()(R a, R b) const {
    return a > b || a != a ? a : b;
  }
};

struct Min {
  template <class R>
  __device__ R operator()(R a, R b) const {
    return a < b || a != a ? a : b;
  }
};

}  // namespace

cudaError_t extremum(const ExtremumParams& p, const void* a, const void* b, void* y, const Launch& where) {
  return p.largest ? broadcast<Max>(p, p.elem, p.activation, a, b, y, where)
                   : broadcast<Min>(p, p.elem, p.activation, a, b, y, where);
}

}  // namespace mobicuda::kernels
