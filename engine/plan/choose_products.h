#pragma once

#include <optional>
#include <vector>

#include "kernels/conv2d.h"

namespace mobicuda {

/// The variants of conv2d that are matrix products and run these parameters, the one expected to be fastest first.
std::vector<kernels::Conv2dVariant> products_by_time(const kernels::Conv2dParams& params, int compute_capability,
                                                     int multiprocessors);

/// The variant with wgmma, which `gemm` has not, that is expected to run a pointwise convolution clearly faster than
/// any of gemm's; nothing where gemm is as good.
std::optional<kernels::Conv2dVariant> product_beyond_gemm(const kernels::Conv2dParams& params, int compute_capability,
                                                          int multiprocessors);

}  // namespace mobicuda
