#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// y[n, c] = mean over p of activation(sum_i x[n, p, i] * w[c, i] + bias[c])
// x NHWC with p = (row, column): a pointwise convolution and the global average pool after it in one launch. Sums and
// mean in float; the convolution's result is not rounded to elem in between.

/// SliceN: half, a block computes N channels of some images, for few images. Pictures2N128: 128 channels of two
/// images of at most 64 pixels, for many. WgmmaN128: images of 49 pixels, c a multiple of 256, sm_90 only, where
/// the library was built for it; WgmmaPaddedN128: the same for images of up to 256 pixels and other c. SimtSliceN: as
/// SliceN, in exact float, c_in up to 320.
/// kernels/pointwise_pool/README.md says which to use when.
enum class PointwisePoolVariant : std::uint8_t {
  Slice8,
  Slice16,
  Slice32,
  Pictures2N128,
  WgmmaN128,
  WgmmaPaddedN128,
  SimtSlice8,
  SimtSlice16
};

struct PointwisePoolParams {
  Elem elem = Elem::F16;  ///< of x, the packed weights and y; F16, or F32 of SimtSliceN
  int n = 0;
  int pixels = 0;  ///< of an image
  int c_in = 0, c = 0;
  bool bias = false;
  Activation activation{};  ///< a clip; HardSwish or Silu too, of half and not of Pictures2N128
};

std::span<const PointwisePoolVariant> pointwise_pool_variants();
std::string_view name(PointwisePoolVariant variant);
/// Channels of a block.
int slice_channels(PointwisePoolVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there, shared memory and clusters
/// included. Host-only.
bool supports(PointwisePoolVariant variant, const PointwisePoolParams& params, const DeviceTraits& gpu);

/// packed is from gemm_pack(elem, c, c_in). bias (c) in float or null, as params say. Pointers 16-byte aligned; y
/// overlaps no input. Returns cudaErrorInvalidValue where !supports(). n == 0 is legal and does nothing. A variant
/// gives an image the same bits in every batch. Safe from several threads.
cudaError_t pointwise_pool(PointwisePoolVariant variant, const PointwisePoolParams& params, const void* x,
                           const void* packed, const float* bias, void* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<PointwisePoolParams, PointwisePoolVariant>& kernel_of(const PointwisePoolParams&);

}  // namespace mobicuda::kernels
