// split_gemm with wgmma: tiles, tensor map, launch. It exists as sm_90a code only: where that is built, CMakeLists.txt
// defines MOBICUDA_HAS_SM90A.

#include "kernels/split_gemm/families.h"

#ifdef MOBICUDA_HAS_SM90A

#include <algorithm>
#include <iterator>

#include "kernels/common/driver_function.h"
#include "kernels/common/resident_blocks.h"
#include "kernels/split_gemm/wgmma/kernel.cuh"

namespace mobicuda::kernels::split_gemm_wgmma {
namespace {

using products::ProductArgs;
using split_gemm_detail::kSlice;
using split_gemm_detail::WgmmaArguments;
using split_gemm_detail::WgmmaConfig;
using split_gemm_detail::WgmmaShape;
using enum SplitGemmVariant;

using EncodeFunction = decltype(&cuTensorMapEncodeTiled);

/// Rows of X as pairs of halves, in boxes of `rows` by a slice; zeros outside.
bool encode(const ProductArgs& args, int rows, CUtensorMap& map) {
  static const auto function = find_driver_function<EncodeFunction>("cuTensorMapEncodeTiled");
  if (function == nullptr) return false;
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(args.k) * 2, static_cast<cuuint64_t>(args.m)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(args.x_pitch) * sizeof(float)};
  const cuuint32_t box[2] = {2 * kSlice, static_cast<cuuint32_t>(rows)};
  const cuuint32_t steps[2] = {1, 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<void*>(args.x), extents, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <WgmmaConfig kConfig>
cudaError_t launch_shape(const ProductArgs& args, const Launch& where) {
  using Shape = WgmmaShape<kConfig>;
  WgmmaArguments a{};
  a.product = args;
  if (!encode(args, Shape::kBm, a.x)) return cudaErrorNotSupported;
  const bool plain = args.y_pitch == args.n && args.activation.kind == ActivationKind::Clip;
  const auto kernel =
      plain ? split_gemm_detail::split_wgmma_kernel<Shape, true> : split_gemm_detail::split_wgmma_kernel<Shape, false>;
  DeviceTraits gpu;
  int blocks = 0;
  cudaError_t status = current_device_traits(gpu);
  if (status == cudaSuccess) {
    status = resident_blocks(kernel, Shape::kThreads, Shape::kSharedBytes, gpu.shared_bytes_per_block, blocks);
  }
  if (status != cudaSuccess) return status;
  const int m_tiles = ceil_div(args.m, Shape::kBm);
  const int n_tiles = ceil_div(args.n, Shape::kBn);
  const int strip_blocks = std::clamp(blocks / n_tiles, 1, m_tiles);
  a.product.k_slices = ceil_div(args.k, Shape::kBk);
  a.product.whole_rounds = m_tiles / strip_blocks;
  a.product.last_round = m_tiles % strip_blocks;
  const dim3 grid(static_cast<unsigned>(n_tiles), static_cast<unsigned>(strip_blocks));
  return kernels::launch(kernel, grid, dim3(Shape::kThreads), Shape::kSharedBytes, where, a);
}

struct Entry {
  SplitGemmVariant variant;
  cudaError_t (*launch)(const ProductArgs& args, const Launch& where);
};

// clang-format off
constexpr Entry kEntries[] = {
    //                             groups  columns  products  slices  stages  min_blocks  groups_k
    {Wgmma192x96x64,   launch_shape<WgmmaConfig{3,   96,        1,      2,      3,          1}>},
    {Wgmma128x160x64,  launch_shape<WgmmaConfig{2,  160,        2,      2,      3,          1}>},
    {Wgmma128x96x64,   launch_shape<WgmmaConfig{2,   96,        1,      2,      3,          1}>},
    {Wgmma128x64x32,   launch_shape<WgmmaConfig{2,   64,        1,      1,      4,          2}>},
    {Wgmma128x32x32,   launch_shape<WgmmaConfig{2,   32,        1,      1,      5,          2}>},
    {Wgmma64x64x64,    launch_shape<WgmmaConfig{1,   64,        1,      2,      3,          2}>},
    {Wgmma64x32x64,    launch_shape<WgmmaConfig{1,   32,        1,      2,      3,          3}>},
#ifdef MOBICUDA_ALL_VARIANTS
    {Wgmma64x96x64K2,  launch_shape<WgmmaConfig{1,   96,        1,      2,      4,          1,        2}>},
    {Wgmma64x64x64K3,  launch_shape<WgmmaConfig{1,   64,        1,      2,      4,          1,        3}>},
    {Wgmma64x32x64K4,  launch_shape<WgmmaConfig{1,   32,        1,      2,      6,          1,        4}>},
    {Wgmma64x32x64K2,  launch_shape<WgmmaConfig{1,   32,        1,      2,      4,          2,        2}>},
#endif
};
// clang-format on

const Entry* find(SplitGemmVariant variant) {
  const auto* found = std::find_if(std::begin(kEntries), std::end(kEntries),
                                   [&](const Entry& entry) { return entry.variant == variant; });
  return found == std::end(kEntries) ? nullptr : found;
}

}  // namespace

bool has(SplitGemmVariant variant) { return find(variant) != nullptr; }

cudaError_t launch(SplitGemmVariant variant, const ProductArgs& args, const Launch& where) {
  return find(variant)->launch(args, where);
}

}  // namespace mobicuda::kernels::split_gemm_wgmma

#else

namespace mobicuda::kernels::split_gemm_wgmma {

bool has(SplitGemmVariant /*variant*/) { return false; }

cudaError_t launch(SplitGemmVariant /*variant*/, const products::ProductArgs& /*args*/, const Launch& /*where*/) {
  return cudaErrorNotSupported;
}

}  // namespace mobicuda::kernels::split_gemm_wgmma

#endif
