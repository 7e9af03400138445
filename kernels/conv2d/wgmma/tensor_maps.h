// Tensor maps of what conv2d's kernels on wgmma copy in boxes: images, weights, tiles of y. Rows of 64 halves, swizzled
// by 128 bytes.
#pragma once

#include "kernels/common/driver_function.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/wgmma/shape.cuh"
#include "kernels/ptx/tensor_map.h"

namespace mobicuda::kernels::conv_wgmma {

/// Boxes of a tensor of halves. False where there is no driver for it.
template <int kRank>
bool encode_halves(void* tensor, const cuuint64_t (&extents)[kRank], const cuuint64_t (&strides)[kRank - 1],
                   const cuuint32_t (&box)[kRank], const cuuint32_t (&steps)[kRank], CUtensorMap& map) {
  static const auto function = find_driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  return function != nullptr &&
         function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, kRank, tensor, extents, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/// A box of images, NHWC. `step`: from a pixel to the next.
inline bool encode_images(void* tensor, const cuuint64_t (&extents)[4], const cuuint64_t (&strides)[3],
                          const cuuint32_t (&box)[4], CUtensorMap& map, cuuint32_t step = 1) {
  const cuuint32_t steps[4] = {1, step, 1, 1};
  return encode_halves(tensor, extents, strides, box, steps, map);
}

/// 64 inputs x 64 outputs of a tap at a time; those of a second convolution are behind the first one's.
inline bool encode_weights(const Conv2dParams& p, int pitch, const void* packed, CUtensorMap& map) {
  const auto outputs = static_cast<cuuint64_t>(pitch);
  const auto inputs = static_cast<cuuint64_t>(p.c_in / p.groups + p.second.c_in);
  const cuuint64_t extents[3] = {outputs, inputs, static_cast<cuuint64_t>(p.kernel_h * p.kernel_w)};
  const cuuint64_t strides[2] = {outputs * 2, outputs * inputs * 2};
  const cuuint32_t box[3] = {kPanelColumns, kSliceK, 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  return encode_halves(const_cast<void*>(packed), extents, strides, box, steps, map);
}

/// `rows` pixels x 64 channels of a group at a time, of pixels that are `pitch` channels apart.
inline bool encode_tile(const conv_gemm::Arguments& a, int pitch, int rows, const void* tensor, CUtensorMap& map) {
  const auto channels = static_cast<cuuint64_t>(a.group_out);
  const auto groups = static_cast<cuuint64_t>(a.c_out / a.group_out);
  const auto row_bytes = static_cast<cuuint64_t>(pitch) * 2;
  const cuuint64_t extents[3] = {channels, groups, static_cast<cuuint64_t>(a.m)};
  const cuuint64_t strides[2] = {groups == 1 ? row_bytes : channels * 2, row_bytes};
  const cuuint32_t box[3] = {kPanelColumns, 1, static_cast<cuuint32_t>(rows)};
  const cuuint32_t steps[3] = {1, 1, 1};
  return encode_halves(const_cast<void*>(tensor), extents, strides, box, steps, map);
}

}  // namespace mobicuda::kernels::conv_wgmma
