// pointwise_pool with wgmma, for many small images: limits, tensor maps, launch.
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

/// The rest of the arguments, and the launch: `strips` of channels, each with `rows` of blocks that share the groups.
template <class Columns>
cudaError_t launch_wgmma(Arguments& a, int strips, int rows, const Launch& where) {
  const auto kernel = pooled_wgmma_kernel<Columns>;
  if (const cudaError_t status = allow_shared_memory(kernel, kSharedLimit); status != cudaSuccess) return status;
  a.groups = ceil_div(a.n, a.pictures);
  a.stages = stages_beside<Columns>(a.slices);
  const auto bytes = static_cast<std::size_t>(shared_bytes<Columns>(a.slices, a.stages));
  const dim3 grid(static_cast<unsigned>(strips), static_cast<unsigned>(std::min(a.groups, rows)));
  return launch_clusters(kernel, grid, dim3(kThreads), bytes, Columns::kBlocks, where, a);
}

template <int kPictures>
cudaError_t launch_49(Arguments& a, const Tensor& x, int rows, const Launch& where) {
  using Columns = Columns49<kPictures, false>;
  if (!encode(x, {1, Columns::kWholePixels, kSliceK}, a.pixels) || !encode(x, {kPictures, 1, kSliceK}, a.rest)) {
    return cudaErrorNotSupported;
  }
  a.pictures = kPictures;
  return is_clip(a.activation) ? launch_wgmma<Columns>(a, a.c / kChannels, rows, where)
                               : launch_wgmma<Columns49<kPictures, true>>(a, a.c / kChannels, rows, where);
}

/// How many images a group has: as many as need the least time.
int choose_pictures(int n, int rows) {
  constexpr int kRoundTenths[] = {15, 18, 25, 32, 40};  // of a us, measured on an H100
  int best = 0;
  int least = 0;
  for (int pictures = 1; pictures <= static_cast<int>(std::size(kRoundTenths)); ++pictures) {
    const int tenths = ceil_div(ceil_div(n, pictures), rows) * kRoundTenths[pictures - 1];
    if (best != 0 && tenths >= least) continue;
    best = pictures;
    least = tenths;
  }
  return best;
}

cudaError_t run_49(Arguments& a, const Tensor& x, int multiprocessors, const Launch& where) {
  const int rows = std::max(1, multiprocessors / (a.c / kChannels));
  switch (choose_pictures(a.n, rows)) {
    case 1:
      return launch_49<1>(a, x, rows, where);
    case 2:
      return launch_49<2>(a, x, rows, where);
    case 3:
      return launch_49<3>(a, x, rows, where);
    case 4:
      return launch_49<4>(a, x, rows, where);
    default:
      return launch_49<5>(a, x, rows, where);
  }
}

constexpr int kColumnStep = 32;
constexpr int kMostColumns = 256;  // of a product

int padded_columns(int pixels) { return PaddedColumns<kColumnStep, false>::columns(pixels); }

template <int kColumns>
cudaError_t launch_padded(Arguments& a, const Tensor& x, int columns, int rows, const Launch& where) {
  if constexpr (kColumns < kMostColumns) {
    if (columns > kColumns) return launch_padded<kColumns + kColumnStep>(a, x, columns, rows, where);
  }
  a.pictures = kColumns / padded_columns(x.middle);
  if (!encode(x, {a.pictures, padded_columns(x.middle), kSliceK}, a.pixels)) return cudaErrorNotSupported;
  const int strips = ceil_div(a.c, kChannels);
  return is_clip(a.activation) ? launch_wgmma<PaddedColumns<kColumns, false>>(a, strips, rows, where)
                               : launch_wgmma<PaddedColumns<kColumns, true>>(a, strips, rows, where);
}

/// How many columns a group has: as many as need the least time, by that of a round, 0.7 us and 2.6 ns for a column and
/// a slice of k (fitted to kRoundTenths).
int choose_columns(int n, int pixels, int slices, int rows) {
  constexpr int kRoundNs = 700;
  constexpr int kTenthsOfColumn = 26;
  int best = 0;
  int least = 0;
  for (int columns = kColumnStep; columns <= kMostColumns; columns += kColumnStep) {
    const int pictures = columns / padded_columns(pixels);
    if (pictures == 0) continue;
    const int ns = ceil_div(ceil_div(n, pictures), rows) * (kRoundNs + columns * slices * kTenthsOfColumn / 10);
    if (best != 0 && ns >= least) continue;
    best = columns;
    least = ns;
  }
  return best;
}

cudaError_t run_padded(Arguments& a, const Tensor& x, int multiprocessors, const Launch& where) {
  const int rows = std::max(1, multiprocessors / ceil_div(a.c, kChannels));
  return launch_padded<kColumnStep>(a, x, choose_columns(a.n, x.middle, a.slices, rows), rows, where);
}

}  // namespace

bool pointwise_pool_wgmma_supports(PointwisePoolVariant variant, const PointwisePoolParams& p) {
  constexpr int kMostPictures = 1 << 20;
  if (p.c_in > kMaxSlices * kSliceK || p.n > kMostPictures) return false;
  if (variant == PointwisePoolVariant::WgmmaPaddedN128) return p.pixels <= kMostColumns;
  using Columns = Columns49<1, false>;
  return p.pixels == Columns::kPixels && p.c % (Columns::kBlocks * kChannels) == 0;
}

cudaError_t pointwise_pool_wgmma(PointwisePoolVariant variant, const PointwisePoolParams& p, const void* x,
                                 const void* packed, const float* bias, void* y, const Launch& where) {
  int multiprocessors = 0;
  if (const cudaError_t status = count_multiprocessors(multiprocessors); status != cudaSuccess) return status;
  Arguments a{};
  if (!encode({packed, 0, p.c, p.c_in}, {0, kChannels, kSliceK}, a.weights)) return cudaErrorNotSupported;
  a.bias = bias;
  a.y = static_cast<__half*>(y);
  a.n = p.n;
  a.c = p.c;
  a.pixels_of_image = p.pixels;
  a.slices = ceil_div(p.c_in, kSliceK);
  a.activation = p.activation;
  const Tensor tensor{x, p.n, p.pixels, p.c_in};
  return variant == PointwisePoolVariant::WgmmaPaddedN128 ? run_padded(a, tensor, multiprocessors, where)
                                                          : run_49(a, tensor, multiprocessors, where);
}

}  // namespace mobicuda::kernels

#else

namespace mobicuda::kernels {

bool pointwise_pool_wgmma_supports(PointwisePoolVariant /*variant*/, const PointwisePoolParams& /*params*/) {
  return false;
}

cudaError_t pointwise_pool_wgmma(PointwisePoolVariant /*variant*/, const PointwisePoolParams& /*params*/,
                                 const void* /*x*/, const void* /*packed*/, const float* /*bias*/, void* /*y*/,
                                 const Launch& /*where*/) {
  return cudaErrorNotSupported;
}

}  // namespace mobicuda::kernels

#endif
