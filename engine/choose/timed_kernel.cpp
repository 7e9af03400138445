#include "choose/timed_kernel.h"

namespace mobicuda {

using kernels::GlobalAveragePoolParams;
using kernels::Launch;

TimedKernel timed(const GlobalAveragePoolParams& params) {
  const std::int64_t values = static_cast<std::int64_t>(size_of(params.elem)) * params.n * params.c;
  TimedKernel kernel{"pooling/global_average"};
  kernel.x_bytes = values * params.h * params.w;
  kernel.y_bytes = values;
  kernel.enqueue = [params](const TimedOperands& at, const Launch& where) {
    return global_average_pool(params, at.x, at.y, where);
  };
  return kernel;
}

}  // namespace mobicuda
