// Whole rows of Y: short sums for many columns, where writing Y is nearly all that a launch does. A warp multiplies 16
// rows by all of W, which stays in shared memory in the order of the fragments, and hands the copy engine its rows of
// Y in one piece: whole lines, wherever rows begin. X goes from global memory to the fragments. sm_90 and newer.
//
// A product has its values of k, and its columns, in any order that both operands share. Lane t of four holds
// neighbouring values of k, 8 of each 32, so that it loads 16 bytes of a row at once; and of 32 columns the 8 that lie
// side by side, so that it stores 16.
#pragma once

#include "kernels/common/product_pipeline.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels::products {

inline constexpr int kRowsWarps = 8;
inline constexpr int kRowsOfWarp = 16;
inline constexpr int kRowsLargestN = 256;
inline constexpr int kRowsLargestK = 64;

/// Shared memory: W by fragments | bias | each warp's rows of Y.
constexpr std::size_t rows_shared_bytes(int n, int k) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(2 * k + 4 + 2 * kRowsOfWarp * kRowsWarps);
}

/// What a lane holds of kK values of k of one row, in the order in which a fragment's words take it: of every 32
/// values 8, of 16 beyond them 4, and of 8 beyond these 2.
template <int kK>
struct RowWords {
  static constexpr int kPairs = kK / 32;
  static constexpr bool kSixteen = kK % 32 >= 16;
  static constexpr bool kEight = kK % 16 == 8;
  static constexpr int kWords = kK / 8;

  std::uint32_t word[kWords];

  /// `row` points to bytes; zeros where not `present`.
  __device__ __forceinline__ void load(const unsigned char* row, int t, bool present) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) ptx::load_global_words_if<4>(present, row + 64 * i + 16 * t, word + 4 * i);
    if constexpr (kSixteen) ptx::load_global_words_if<2>(present, row + 64 * kPairs + 8 * t, word + 4 * kPairs);
    if constexpr (kEight) ptx::load_global_words_if<1>(present, row + 2 * (kK - 8) + 4 * t, word + kWords - 1);
  }

  /// The same to and from shared memory, where a tile of eight columns has 16 * kK bytes, without bank conflicts.
  __device__ __forceinline__ void store_shared(std::uint32_t tile, int lane) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      ptx::store_shared(tile + 512 * i + 16 * lane, {word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]});
    }
    if constexpr (kSixteen) {
      const std::uint32_t to = tile + 512 * kPairs + 8 * lane;
      ptx::store_shared(to, word[4 * kPairs]);
      ptx::store_shared(to + 4, word[4 * kPairs + 1]);
    }
    if constexpr (kEight) ptx::store_shared(tile + 16 * (kK - 8) + 4 * lane, word[kWords - 1]);
  }
  __device__ __forceinline__ void load_shared(std::uint32_t tile, int lane) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) ptx::load_shared_words<4>(tile + 512 * i + 16 * lane, word + 4 * i);
    if constexpr (kSixteen) ptx::load_shared_words<2>(tile + 512 * kPairs + 8 * lane, word + 4 * kPairs);
    if constexpr (kEight) ptx::load_shared_words<1>(tile + 16 * (kK - 8) + 4 * lane, word + kWords - 1);
  }
};

/// d += rows * columns: `upper` and `lower` are rows lane / 4 and 8 behind it.
template <int kK>
__device__ __forceinline__ void multiply(float (&d)[4], const RowWords<kK>& upper, const RowWords<kK>& lower,
                                         const RowWords<kK>& columns) {
#pragma unroll
  for (int step = 0; step < kK / 16; ++step) {
    const std::uint32_t a[4] = {upper.word[2 * step], lower.word[2 * step], upper.word[2 * step + 1],
                                lower.word[2 * step + 1]};
    ptx::mma_16x8x16(d, a, columns.word[2 * step], columns.word[2 * step + 1]);
  }
  if constexpr (RowWords<kK>::kEight) {
    constexpr int kLast = RowWords<kK>::kWords - 1;
    ptx::mma_16x8x8(d, upper.word[kLast], lower.word[kLast], columns.word[kLast]);
  }
}

/// Which column of Y is column `c` of a tile of eight. Four tiles share 32 columns, of which those of a lane's
/// accumulators (two neighbours of each tile) lie side by side; what is left over keeps its order.
__device__ __forceinline__ int row_column(int tile, int c, int n) {
  const int first = tile / 4 * 32;
  return first + 32 <= n ? first + c / 2 * 8 + tile % 4 * 2 + c % 2 : tile * 8 + c;
}

/// kValues neighbouring outputs of a row, to the staged rows.
template <int kValues>
__device__ __forceinline__ void stage(const Activation& activation, float (&value)[kValues],
                                      const float (&bias)[kValues], std::uint32_t to) {
#pragma unroll
  for (int i = 0; i < kValues; ++i) value[i] += bias[i];
  apply(activation, value);
  std::uint32_t words[kValues / 2];
#pragma unroll
  for (int i = 0; i < kValues / 2; ++i) words[i] = ptx::to_half2(value[2 * i], value[2 * i + 1]);
  if constexpr (kValues == 8) {
    ptx::store_shared(to, words);
  } else {
    ptx::store_shared(to, words[0]);
  }
}

/// Blocks walk over tiles of 16 rows, one for each warp. args.n: a multiple of 8. Rows of Y that lie apart are copied
/// one by one.
template <int kK>
__global__ void __launch_bounds__(32 * kRowsWarps, kK <= 32 ? 4 : 3) rows_kernel(const ProductArgs args) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Words = RowWords<kK>;
  constexpr int kTileBytes = 16 * kK;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const int lane = ptx::as_int::lane();
  const int warp = ptx::as_int::warp();
  const int t = lane % 4;
  const int column_tiles = args.n / 8;
  const std::uint32_t weights = ptx::shared_address(shared);
  const std::uint32_t biases = weights + static_cast<std::uint32_t>(column_tiles * kTileBytes);
  const std::uint32_t rows = biases + static_cast<std::uint32_t>(4 * args.n + warp * 2 * kRowsOfWarp * args.n);

  // Weights and bias do not depend on the predecessor.
  for (int tile = warp; tile < column_tiles; tile += kRowsWarps) {
    const auto column = static_cast<std::size_t>(row_column(tile, lane / 4, args.n));
    Words words;
    words.load(static_cast<const unsigned char*>(args.w) + 2 * column * static_cast<std::size_t>(args.k_packed), t,
               true);
    words.store_shared(weights + static_cast<std::uint32_t>(tile * kTileBytes), lane);
  }
  for (int i = static_cast<int>(threadIdx.x); i < args.n; i += 32 * kRowsWarps) {
    reinterpret_cast<float*>(shared + column_tiles * kTileBytes)[i] = args.bias == nullptr ? 0.0F : args.bias[i];
  }
  bring_next_weights(args.next);
  __syncthreads();
  wait_for_predecessor();

  const int tiles = (args.m + kRowsOfWarp - 1) / kRowsOfWarp;
  const int step = static_cast<int>(gridDim.x) * kRowsWarps;
  const auto load = [&](int tile, Words& upper, Words& lower) {
    const int row = tile * kRowsOfWarp + lane / 4;
    const std::size_t pitch = 2 * static_cast<std::size_t>(args.x_pitch);
    const unsigned char* at = static_cast<const unsigned char*>(args.x) + static_cast<std::size_t>(row) * pitch;
    upper.load(at, t, tile < tiles && row < args.m);
    lower.load(at + 8 * pitch, t, tile < tiles && row + 8 < args.m);
  };

  // Neighbouring blocks first, so that few tiles spread over the multiprocessors.
  int tile = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  Words upper, lower;
  load(tile, upper, lower);
#pragma unroll 1
  for (; tile < tiles; tile += step) {
    Words next_upper, next_lower;
    load(tile + step, next_upper, next_lower);
    ptx::copy_out_wait_read<0>();  // of the lane's own copies
    __syncwarp();

    const std::uint32_t row_bytes = 2U * static_cast<std::uint32_t>(args.n);
    const std::uint32_t upper_row = rows + static_cast<std::uint32_t>(lane / 4) * row_bytes;
    const std::uint32_t lower_row = upper_row + 8 * row_bytes;
    std::uint32_t columns = weights;
    int column = 0;
#pragma unroll 1
    for (; column + 32 <= args.n; column += 32) {
      float sums[2][8];  // of the two rows, in the order of Y's columns
#pragma unroll
      for (int j = 0; j < 4; ++j, columns += kTileBytes) {
        Words w;
        w.load_shared(columns, lane);
        float d[4] = {};
        multiply<kK>(d, upper, lower, w);
        sums[0][2 * j] = d[0];
        sums[0][2 * j + 1] = d[1];
        sums[1][2 * j] = d[2];
        sums[1][2 * j + 1] = d[3];
      }
      const int first = column + 8 * t;
      const auto low = ptx::load_shared<float4>(biases + static_cast<std::uint32_t>(4 * first));
      const auto high = ptx::load_shared<float4>(biases + static_cast<std::uint32_t>(4 * first + 16));
      const float bias[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      stage(args.activation, sums[0], bias, upper_row + static_cast<std::uint32_t>(2 * first));
      stage(args.activation, sums[1], bias, lower_row + static_cast<std::uint32_t>(2 * first));
    }
#pragma unroll 1
    for (; column < args.n; column += 8, columns += kTileBytes) {
      Words w;
      w.load_shared(columns, lane);
      float d[4] = {};
      multiply<kK>(d, upper, lower, w);
      const int first = column + 2 * t;
      const auto pair = ptx::load_shared<float2>(biases + static_cast<std::uint32_t>(4 * first));
      const float bias[2] = {pair.x, pair.y};
      float of_upper[2] = {d[0], d[1]};
      float of_lower[2] = {d[2], d[3]};
      stage(args.activation, of_upper, bias, upper_row + static_cast<std::uint32_t>(2 * first));
      stage(args.activation, of_lower, bias, lower_row + static_cast<std::uint32_t>(2 * first));
    }

    ptx::fence_proxy_async();
    __syncwarp();
    const int first = tile * kRowsOfWarp;
    const int count = args.m - first < kRowsOfWarp ? args.m - first : kRowsOfWarp;
    const std::size_t pitch = 2 * static_cast<std::size_t>(args.y_pitch);
    unsigned char* const to = static_cast<unsigned char*>(args.y) + static_cast<std::size_t>(first) * pitch;
    if (pitch == row_bytes) {
      if (lane == 0) ptx::copy_bulk_out(to, rows, count * static_cast<int>(row_bytes));
    } else if (lane < count) {
      ptx::copy_bulk_out(to + static_cast<std::size_t>(lane) * pitch,
                         rows + static_cast<std::uint32_t>(lane) * row_bytes, static_cast<int>(row_bytes));
    }
    upper = next_upper;
    lower = next_lower;
  }
  ptx::copy_out_wait_read<0>();
#endif
}

}  // namespace mobicuda::kernels::products
