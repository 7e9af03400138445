#pragma once

#include <vector>

#include "kernels/conv2d/conv2d.h"

namespace mobicuda {

/// The variants of conv2d that are matrix products and run these parameters, the one expected to be fastest first.
std::vector<kernels::Conv2dVariant> products_by_time(const kernels::Conv2dParams& params,
                                                     const kernels::DeviceTraits& gpu);

/// Whether gemm's rule takes tiles of 96 columns for a product of m rows, n outputs and k inputs.
bool takes_96_columns(double m, int n, int k, int multiprocessors);

/// Whether gemm's rule takes whole rows for a product of m rows, n outputs and k inputs, where they run it: of short
/// sums writing Y is nearly all.
bool takes_whole_rows(double m, int n, int k, int multiprocessors);

/// Whether a variant with wgmma, which `gemm` has not, is expected to run a pointwise convolution as fast as gemm
/// does, or faster.
bool beats_gemm(const kernels::Conv2dParams& params, const kernels::DeviceTraits& gpu);

}  // namespace mobicuda
