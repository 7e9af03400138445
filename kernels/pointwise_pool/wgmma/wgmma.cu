// pointwise_pool with wgmma, for many images of 7 x 7: limits, tensor maps, launch.
// The kernel: kernel.cuh. It exists as sm_90a code only: where that is built, CMakeLists.txt
// defines MOBICUDA_HAS_SM90A.

#include "kernels/pointwise_pool/families.h"

#ifdef MOBICUDA_HAS_SM90A

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "kernels/common/driver_function.h"
#include "kernels/common/launch_cluster.h"
#include "kernels/common/resident_blocks.h"
#include "kernels/pointwise_pool/wgmma/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using namespace pooled_wgmma;

using EncodeFunction = decltype(&cuTensorMapEncodeTiled);

/// (outer, middle, inner) of half, dense; zeros outside.
struct Tensor {
  const void* data;
  int outer, middle, inner;
};

struct Box {
  int outer, middle, inner;
};

bool encode(const Tensor& tensor, const Box& box, CUtensorMap& map) {
  static const auto function = find_driver_function<EncodeFunction>("cuTensorMapEncodeTiled");
  if (function == nullptr) return false;
  const auto inner = static_cast<cuuint64_t>(tensor.inner);
  const auto middle = static_cast<cuuint64_t>(tensor.middle);
  const cuuint64_t extents[3] = {inner, middle, static_cast<cuuint64_t>(tensor.outer)};
  const cuuint64_t strides[2] = {inner * 2, middle * inner * 2};
  const cuuint32_t box_extents[3] = {static_cast<cuuint32_t>(box.inner), static_cast<cuuint32_t>(box.middle),
                                     static_cast<cuuint32_t>(box.outer)};
  const cuuint32_t steps[3] = {1, 1, 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, box.outer == 0 ? 2 : 3, const_cast<void*>(tensor.data),
                  extents, strides, box_extents, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int kPictures>
cudaError_t launch_wgmma(Arguments& a, const Tensor& x, int strips, const Launch& where) {
  constexpr int kBytes = Ring<kPictures>::kSharedBytes;
  const auto kernel = pooled_wgmma_kernel<kPictures>;
  if (!encode(x, {1, kWholePixels, kSliceK}, a.pixels) || !encode(x, {kPictures, 1, kSliceK}, a.last_pixels)) {
    return cudaErrorNotSupported;
  }
  const cudaError_t status = allow_shared_memory(kernel, kBytes);
  if (status != cudaSuccess) return status;
  a.groups = ceil_div(a.n, kPictures);
  const dim3 grid(static_cast<unsigned>(a.c / kChannels), static_cast<unsigned>(std::min(a.groups, strips)));
  return launch_clusters(kernel, grid, dim3(kThreads), kBytes, kBlocks, where, a);
}

/// How many images a group has: as many as need the least time.
int choose_pictures(int n, int strips) {
  constexpr int kRoundTenths[] = {15, 18, 25, 32, 40};  // of a us, measured on an H100
  int best = 0;
  int least = 0;
  for (int pictures = 1; pictures <= static_cast<int>(std::size(kRoundTenths)); ++pictures) {
    const int tenths = ceil_div(ceil_div(n, pictures), strips) * kRoundTenths[pictures - 1];
    if (best != 0 && tenths >= least) continue;
    best = pictures;
    least = tenths;
  }
  return best;
}

}  // namespace

bool pointwise_pool_wgmma_supports(const PointwisePoolParams& p) {
  constexpr int kMostPictures = 1 << 20;
  return p.pixels == kPixels && p.c_in <= kMaxSlices * kSliceK && p.c % (kBlocks * kChannels) == 0 &&
         p.n <= kMostPictures;
}

cudaError_t pointwise_pool_wgmma(const PointwisePoolParams& p, const void* x, const void* packed, const float* bias,
                                 void* y, const Launch& where) {
  int multiprocessors = 0;
  if (const cudaError_t status = count_multiprocessors(multiprocessors); status != cudaSuccess) return status;
  const int strips = std::max(1, multiprocessors / (p.c / kChannels));
  Arguments a{};
  if (!encode({packed, 0, p.c, p.c_in}, {0, kChannels, kSliceK}, a.weights)) return cudaErrorNotSupported;
  a.bias = bias;
  a.y = static_cast<__half*>(y);
  a.n = p.n;
  a.c = p.c;
  a.slices = ceil_div(p.c_in, kSliceK);
  a.clip = p.clip;
  const Tensor tensor{x, p.n, p.pixels, p.c_in};
  switch (choose_pictures(p.n, strips)) {
    case 1:
      return launch_wgmma<1>(a, tensor, strips, where);
    case 2:
      return launch_wgmma<2>(a, tensor, strips, where);
    case 3:
      return launch_wgmma<3>(a, tensor, strips, where);
    case 4:
      return launch_wgmma<4>(a, tensor, strips, where);
    default:
      return launch_wgmma<5>(a, tensor, strips, where);
  }
}

}  // namespace mobicuda::kernels

#else

namespace mobicuda::kernels {

bool pointwise_pool_wgmma_supports(const PointwisePoolParams& /*params*/) { return false; }

cudaError_t pointwise_pool_wgmma(const PointwisePoolParams& /*params*/, const void* /*x*/, const void* /*packed*/,
                                 const float* /*bias*/, void* /*y*/, const Launch& /*where*/) {
  return cudaErrorNotSupported;
}

}  // namespace mobicuda::kernels

#endif
