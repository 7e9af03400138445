#include "choose/timed_kernel.h"

namespace mobicuda {

using kernels::GlobalAveragePoolParams;
using kernels::Launch;
using kernels::PoolingParams;

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

TimedKernel timed(const PoolingParams& params) {
  const std::int64_t channels = static_cast<std::int64_t>(size_of(params.elem)) * params.n * params.c;
  TimedKernel kernel{params.kind == kernels::PoolingKind::Max ? "pooling/max" : "pooling/average"};
  kernel.x_bytes = channels * params.h * params.w;
  kernel.y_bytes = channels * params.out_h * params.out_w;
  kernel.enqueue = [params](const TimedOperands& at, const Launch& where) {
    return pooling(params, at.x, at.y, where);
  };
  return kernel;
}

}  // namespace mobicuda
