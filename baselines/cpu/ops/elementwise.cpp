#include "baselines/cpu/ops/elementwise.h"

namespace mobicuda::cpu {

template void add<float>(const Add&, const float*, const float*, float*, Range);
template void add<double>(const Add&, const double*, const double*, double*, Range);
template void clip<float>(const Clip&, const float*, float*, Range);
template void clip<double>(const Clip&, const double*, double*, Range);
template void scale_shift<float>(const ScaleShift&, std::int64_t, std::int64_t, const float*, const float*,
                                 const float*, float*, Range);
template void scale_shift<double>(const ScaleShift&, std::int64_t, std::int64_t, const double*, const float*,
                                  const float*, double*, Range);

}  // namespace mobicuda::cpu
