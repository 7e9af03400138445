// Pointwise convolution, activation and global average pool in one launch: variants, limits, launch, and the kernel of
// the slices of half, with float sums on tensor cores. The others: simt.cuh (exact float), tile.cuh and
// pointwise_pool/wgmma/wgmma.cu (half, many images). Slices of half: a block owns a slice of channels of every
// gridDim.y-th image. A warp takes 16 pixels at a time, straight from global memory into registers
// (direct_operands.cuh), 320 channels of them under way at once, and adds its activated results up. The warps' sums
// meet in shared memory and are added in the order of the warps. Shared memory: weights of the slice | bias | two sets
// of partial sums (warp, channel).

#include "kernels/pointwise_pool/pointwise_pool.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

#include "kernels/common/activation.cuh"
#include "kernels/common/conv_vector.cuh"
#include "kernels/common/direct_operands.cuh"
#include "kernels/common/resident_blocks.h"
#include "kernels/common/table_parts.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise_pool/families.h"
#include "kernels/pointwise_pool/simt.cuh"
#include "kernels/pointwise_pool/tile.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels {
namespace {

using Variant = PointwisePoolVariant;

constexpr int kOldest = 80;  // mma.sync m16n8k16, cp.async
constexpr int kOldestSimt = 75;
constexpr int kMaxWarps = 8;
constexpr int kMinBlocks = 2;
constexpr int kAhead = 10;  // blocks of k under way at once
constexpr int kMaxPixels = 1 << 24;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kSharedLimit = least_shared_bytes_from(kOldest);  // so that the tiles are the same on every GPU

struct Arguments {
  int n, pixels, c_in, c;
  int blocks_k;  ///< a multiple of kAhead
  Activation activation;
};

struct Rows {
  uint4 x[2][kAhead];  // (row lane / 4 and + 8, block of k)
};

/// `channels`: of the row, from this thread's first on.
template <int kBlock = 0>
__device__ __forceinline__ void load_rows(const char* const (&from)[2], int channels, Rows& rows) {
  constexpr int kOffset = kBlock * kDirectBlockK * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    ptx::load_global_or_zero(from[i] + kOffset, static_cast<unsigned>(kBlock * kDirectBlockK < channels),
                             rows.x[i][kBlock]);
  }
  if constexpr (kBlock + 1 < kAhead) load_rows<kBlock + 1>(from, channels, rows);
}

template <int kSlice, bool kSwish>
__global__ void __launch_bounds__(kMaxWarps * 32, kMinBlocks)
    pointwise_pool_kernel(const Arguments a, const __half* x, const __half* weight, const float* bias, __half* y) {
  constexpr int kGroups = kSlice / 8;
  constexpr int kRun = 2 * kGroups;
  constexpr int kChains = kGroups < 4 ? 2 : 1;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);

  const int lane = ptx::as_int::lane();
  const int warp = ptx::as_int::warp();
  const int warps = static_cast<int>(blockDim.x / 32);
  const int c0 = static_cast<int>(blockIdx.x) * kSlice;
  const std::size_t row_bytes = static_cast<std::size_t>(a.c_in) * 2;
  const std::size_t picture_bytes = static_cast<std::size_t>(a.pixels) * row_bytes;
  const char* picture = reinterpret_cast<const char*>(x) + blockIdx.y * picture_bytes + lane % 4 * 16;
  const int channels = a.c_in - lane % 4 * 8;
  // Rows beyond the last pixel are the last one, and not counted.
  const auto row_of = [&](int fragment, int i) { return fragment * 16 + lane / 4 + i * 8; };
  const auto address_of = [&](int row) {
    return picture + static_cast<std::size_t>(min(row, a.pixels - 1)) * row_bytes;
  };
  const char* from[2] = {address_of(row_of(warp, 0)), address_of(row_of(warp, 1))};
  ptx::pin(from[0]);
  ptx::pin(from[1]);

  copy_weight_chunks<kGroups>(shared, weight, a.c_in, a.blocks_k, c0);
  const int weight_bytes = kGroups * a.blocks_k * 32 * 16;
  const auto* const weights = reinterpret_cast<const uint4*>(shared) + lane;
  float* const offsets = reinterpret_cast<float*>(shared + weight_bytes);
  float* partial = offsets + kSlice;
  int partial_step = warps * kSlice;
  if (threadIdx.x < kSlice / 4) {
    const int chunk = static_cast<int>(threadIdx.x) * 4;
    const void* const source = bias != nullptr ? static_cast<const void*>(bias + c0 + chunk) : weight;
    ptx::copy_async_cg_128_or_zero(reinterpret_cast<unsigned char*>(offsets + chunk), source, bias != nullptr);
  }
  ptx::copy_async_commit();
  wait_for_predecessor();

  Rows rows;
  load_rows(from, channels, rows);  // a block has no more warps than the image has fragments
  ptx::copy_async_wait<0>();
  __syncthreads();
  bool loaded = true;
  for (int n = static_cast<int>(blockIdx.y); n < a.n; n += static_cast<int>(gridDim.y)) {
    float total[kRun] = {};
    for (int fragment = warp; fragment * 16 < a.pixels; fragment += warps) {
      float sums[kChains][kGroups][4] = {};
      for (int k = 0; k < a.blocks_k; k += kAhead) {
        if (!loaded) {
          const std::size_t k_bytes = static_cast<std::size_t>(k) * kDirectBlockK * 2;
          const char* const next[2] = {address_of(row_of(fragment, 0)) + k_bytes,
                                       address_of(row_of(fragment, 1)) + k_bytes};
          load_rows(next, channels - k * kDirectBlockK, rows);
        }
        loaded = false;
#pragma unroll
        for (int block = 0; block < kAhead; ++block) {
          multiply_add_block(sums, rows.x[0][block], rows.x[1][block], weights + (k + block) * 32, a.blocks_k * 32);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bool counts = row_of(fragment, i) < a.pixels;
        float values[kRun];
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          values[e] = sums[0][e / 2][2 * i + e % 2];
          if constexpr (kChains == 2) values[e] += sums[1][e / 2][2 * i + e % 2];
          values[e] += offsets[lane % 4 * kRun + e];
        }
        activate<kSwish>(a.activation, values);
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          if (counts) total[e] += values[e];
        }
      }
    }
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) {
#pragma unroll
      for (int e = 0; e < kRun; ++e) total[e] += __shfl_xor_sync(0xFFFFFFFFU, total[e], distance);
    }
    if (lane < 4) {
#pragma unroll
      for (int e = 0; e < kRun; ++e) partial[warp * kSlice + lane * kRun + e] = total[e];
    }
    __syncthreads();
    if (threadIdx.x < kSlice) {
      float sum = 0.0F;
      for (int i = 0; i < warps; ++i) sum += partial[i * kSlice + static_cast<int>(threadIdx.x)];
      y[static_cast<std::size_t>(n) * a.c + c0 + threadIdx.x] = from_float<__half>(sum / static_cast<float>(a.pixels));
    }
    picture += gridDim.y * picture_bytes;
    partial += partial_step;
    partial_step = -partial_step;
  }
}

int blocks_k(int c_in) { return round_up(ceil_div(c_in, kDirectBlockK), kAhead); }

std::int64_t shared_bytes(int slice, int c_in, int warps) {
  return std::int64_t{slice} * (std::int64_t{blocks_k(c_in)} * kDirectBlockK * 2 + 4 + 2 * warps * 4);
}

struct Buffers {
  const void* x;
  const void* packed;
  const float* bias;
  void* y;
};

/// Of slices x groups of blocks, each with a slice of channels of every group-th image: as many groups as the GPU
/// holds at once.
dim3 grid_of(const PointwisePoolParams& p, int slice, int resident) {
  const int slices = p.c / slice;
  const int most = std::clamp(resident / slices, 1, kMaxGridYz);
  const int groups = ceil_div(p.n, ceil_div(p.n, most));
  return {static_cast<unsigned>(slices), static_cast<unsigned>(groups)};
}

template <int kSlice>
cudaError_t launch_slice(const PointwisePoolParams& p, const Buffers& buffers, const Launch& where) {
  const auto kernel =
      is_clip(p.activation) ? pointwise_pool_kernel<kSlice, false> : pointwise_pool_kernel<kSlice, true>;
  const int warps = std::min(ceil_div(p.pixels, 16), kMaxWarps);
  const auto bytes = static_cast<std::size_t>(shared_bytes(kSlice, p.c_in, warps));
  int resident = 0;
  const cudaError_t status =
      resident_blocks(kernel, warps * 32, bytes, static_cast<std::size_t>(kSharedLimit), resident);
  if (status != cudaSuccess) return status;
  const Arguments a{p.n, p.pixels, p.c_in, p.c, blocks_k(p.c_in), p.activation};
  return launch(kernel, grid_of(p, kSlice, resident), dim3(static_cast<unsigned>(warps * 32)), bytes, where, a,
                static_cast<const __half*>(buffers.x), static_cast<const __half*>(buffers.packed), buffers.bias,
                static_cast<__half*>(buffers.y));
}

template <int kSlice>
cudaError_t launch_simt(const PointwisePoolParams& p, const Buffers& buffers, const Launch& where) {
  constexpr int kBytes = pooled_simt::Shape<kSlice>::kSharedBytes;
  const auto kernel = pooled_simt::pooled_simt_kernel<kSlice>;
  int resident = 0;
  const cudaError_t status = resident_blocks(kernel, pooled_simt::kThreads, kBytes, kBytes, resident);
  if (status != cudaSuccess) return status;
  const auto packed_row = static_cast<int>(gemm_packed_bytes(Elem::F32, 1, p.c_in) / sizeof(float));
  const pooled_simt::Arguments a{p.n, p.pixels, p.c_in, p.c, packed_row, {p.activation.lo, p.activation.hi}};
  return launch(kernel, grid_of(p, kSlice, resident), dim3(pooled_simt::kThreads), kBytes, where, a,
                static_cast<const float*>(buffers.x), static_cast<const float*>(buffers.packed), buffers.bias,
                static_cast<float*>(buffers.y));
}

cudaError_t launch_tile(const PointwisePoolParams& p, const Buffers& buffers, const Launch& where) {
  using pooled_tile::Tile;
  const auto kernel = pooled_tile::pooled_tile_kernel;
  const cudaError_t status = allow_shared_memory(kernel, pooled_tile::kSharedBytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(p.c / pooled_tile::kColumns),
                  static_cast<unsigned>(ceil_div(p.n, pooled_tile::kPictures)));
  const pooled_tile::Arguments a{
      p.n, p.pixels, p.c_in, p.c, ceil_div(p.c_in, Tile::kBk), {p.activation.lo, p.activation.hi}};
  return launch(kernel, grid, dim3(Tile::kThreads), pooled_tile::kSharedBytes, where, a,
                static_cast<const __half*>(buffers.x), static_cast<const __half*>(buffers.packed), buffers.bias,
                static_cast<__half*>(buffers.y));
}

bool tile_supports(const PointwisePoolParams& p) {
  return p.pixels <= pooled_tile::kPictureRows && p.c % pooled_tile::kColumns == 0 &&
         p.n <= pooled_tile::kPictures * kMaxGridYz && p.pixels <= kMaxInt / 2 / p.c_in;
}

/// That a launch of the variant may ask for at most; what launches of sm_90a ask for is theirs to know.
std::size_t most_shared_bytes(Variant variant) {
  switch (variant) {
    case Variant::Slice8:
    case Variant::Slice16:
    case Variant::Slice32:
      return kSharedLimit;
    case Variant::Pictures2N128:
      return pooled_tile::kSharedBytes;
    case Variant::SimtSlice8:
      return pooled_simt::Shape<8>::kSharedBytes;
    case Variant::SimtSlice16:
      return pooled_simt::Shape<16>::kSharedBytes;
    case Variant::WgmmaN128:
    case Variant::WgmmaPaddedN128:
      break;
  }
  return 0;
}

constexpr Variant kVariants[] = {Variant::Slice8,        Variant::Slice16,    Variant::Slice32,
                                 Variant::Pictures2N128, Variant::WgmmaN128,  Variant::WgmmaPaddedN128,
                                 Variant::SimtSlice8,    Variant::SimtSlice16};

bool is_wgmma(Variant variant) { return variant == Variant::WgmmaN128 || variant == Variant::WgmmaPaddedN128; }

bool is_simt(Variant variant) { return variant == Variant::SimtSlice8 || variant == Variant::SimtSlice16; }

/// What depends on the parameters only.
bool suits(Variant variant, const PointwisePoolParams& p) {
  if (static_cast<std::size_t>(variant) >= std::size(kVariants)) return false;
  if (p.elem != (is_simt(variant) ? Elem::F32 : Elem::F16)) return false;
  const bool clips_only = is_simt(variant) || variant == Variant::Pictures2N128;
  if (!is_clip(p.activation) && (clips_only || !is_swish(p.activation))) return false;
  if (p.n < 0 || p.pixels < 1 || p.pixels > kMaxPixels || p.c_in < 1 || p.c < 1) return false;
  constexpr int kPaddedChannels = 8;  // the last block's others are left out
  if (p.c % (variant == Variant::WgmmaPaddedN128 ? kPaddedChannels : slice_channels(variant)) != 0) return false;
  if (is_simt(variant)) {
    return p.c_in % 4 == 0 && p.c_in <= pooled_simt::kMaxInputs && p.n <= kMaxInt / 2;
  }
  if (p.c_in % 8 != 0 || p.c_in > kSharedLimit) return false;
  if (variant == Variant::Pictures2N128) return tile_supports(p);
  if (is_wgmma(variant)) return pointwise_pool_wgmma_supports(variant, p);
  return p.pixels <= kMaxInt / 2 / p.c_in && shared_bytes(slice_channels(variant), p.c_in, kMaxWarps) <= kSharedLimit;
}

}  // namespace

std::span<const PointwisePoolVariant> pointwise_pool_variants() { return kVariants; }

std::string_view name(PointwisePoolVariant variant) {
  switch (variant) {
    case Variant::Slice8:
      return "slice8";
    case Variant::Slice16:
      return "slice16";
    case Variant::Slice32:
      return "slice32";
    case Variant::Pictures2N128:
      return "pictures2_n128";
    case Variant::WgmmaN128:
      return "wgmma_n128";
    case Variant::WgmmaPaddedN128:
      return "wgmma_padded_n128";
    case Variant::SimtSlice8:
      return "simt_slice8";
    case Variant::SimtSlice16:
      return "simt_slice16";
  }
  return "unknown";
}

int slice_channels(PointwisePoolVariant variant) {
  switch (variant) {
    case Variant::Slice8:
    case Variant::SimtSlice8:
      return 8;
    case Variant::Slice16:
    case Variant::SimtSlice16:
      return 16;
    case Variant::Slice32:
      return 32;
    case Variant::Pictures2N128:
    case Variant::WgmmaN128:
    case Variant::WgmmaPaddedN128:
      return pooled_tile::kColumns;
  }
  return 1;
}

bool supports(PointwisePoolVariant variant, const PointwisePoolParams& p, const DeviceTraits& gpu) {
  if (is_wgmma(variant) && !gpu.wgmma_code) return false;
  return gpu.code >= (is_simt(variant) ? kOldestSimt : kOldest) && suits(variant, p) &&
         most_shared_bytes(variant) <= gpu.shared_bytes_per_block;
}

cudaError_t pointwise_pool(PointwisePoolVariant variant, const PointwisePoolParams& params, const void* x,
                           const void* packed, const float* bias, void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu) || (params.bias && bias == nullptr)) return cudaErrorInvalidValue;
  if (params.n == 0) return cudaSuccess;
  const Buffers buffers{x, packed, params.bias ? bias : nullptr, y};
  switch (variant) {
    case Variant::Slice8:
      return launch_slice<8>(params, buffers, where);
    case Variant::Slice16:
      return launch_slice<16>(params, buffers, where);
    case Variant::Slice32:
      return launch_slice<32>(params, buffers, where);
    case Variant::Pictures2N128:
      return launch_tile(params, buffers, where);
    case Variant::WgmmaN128:
    case Variant::WgmmaPaddedN128:
      return pointwise_pool_wgmma(variant, params, x, packed, buffers.bias, y, where);
    case Variant::SimtSlice8:
      return launch_simt<8>(params, buffers, where);
    case Variant::SimtSlice16:
      return launch_simt<16>(params, buffers, where);
  }
  return cudaErrorInvalidValue;
}

// The kernel's table.
namespace {

OperandBytes operands(PointwisePoolVariant, const PointwisePoolParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.pixels, p.c_in);
  bytes.weights[0] = table::as_bytes(gemm_packed_bytes(p.elem, p.c, p.c_in));
  bytes.weights[1] = table::bias_bytes(p.c);
  bytes.y = table::bytes(p.elem, p.n, p.c);
  return bytes;
}

cudaError_t launch_on(PointwisePoolVariant variant, const PointwisePoolParams& p, const Operands& at,
                      const Launch& where) {
  return pointwise_pool(variant, p, at.x, at.weights[0], table::bias(p.bias, at.weights[1]), at.y, where);
}

std::string shape(const PointwisePoolParams& p) {
  table::ShapeText text("pointwise_pool");
  text.with("n", p.n).with("pixels", p.pixels).with("c_in", p.c_in).with("c", p.c).with("bias", p.bias);
  return text.with("activation", p.activation).take();
}

}  // namespace

const KernelTable<PointwisePoolParams, PointwisePoolVariant>& kernel_of(const PointwisePoolParams&) {
  static const KernelTable<PointwisePoolParams, PointwisePoolVariant> kTable{
      .name = "pointwise_pool",
      .variants = pointwise_pool_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<PointwisePoolParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
