#pragma once

#include "conv2d_arguments.cuh"
#include "fast_division.cuh"
#include "gemm_pipeline.cuh"

namespace mobicuda::kernels::convolution {

// Any convolution as a matrix product that gathers its left factor: rows are output pixels, columns a group's output
// channels, k counts (ky, kx, ci), as the packed weights do. Exact float (no TF32) or double.
// Block -> kBm pixels x kBn channels of one group. Slices of kBk of both factors pass through a ring of kStages buffers
// in shared memory, filled ahead of the arithmetic; pixels outside the image are filled with zeros.
// Thread (tx, ty) of k group g -> rows ty + i * kThreadsM and, in runs of 16 bytes, kTn columns; it reads the gathered
// rows 16 bytes of k at a time. kSplitK groups share each slice, their sums meet in shared memory at the end.

struct SimtArguments {
  Arguments conv;         ///< grid: items are pixels
  FastDivision group_in;  ///< k -> tap, ci
  FastDivision kernel_w;  ///< tap -> ky, kx
  int k;
  int k_slices;
  int column_tiles;  ///< of a group
};

template <int kBm_, int kBn_, int kBk_, int kTm_, int kTn_, int kSplitK_, int kStages_, int kMinBlocks_>
struct Simt {
  static constexpr int kBm = kBm_;
  static constexpr int kBn = kBn_;
  static constexpr int kBk = kBk_;
  static constexpr int kTm = kTm_;
  static constexpr int kTn = kTn_;
  static constexpr int kSplitK = kSplitK_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int kThreadsM = kBm / kTm;
  static constexpr int kThreadsN = kBn / kTn;
  static constexpr int kThreads = kThreadsM * kThreadsN * kSplitK;
};

/// What of a configuration depends on the element type.
template <class S, class T>
struct SimtShape {
  static constexpr int kRun = kWide<T>;          ///< elements of one access
  static constexpr int kXPitch = S::kBk + kRun;  // 8 neighbouring rows lie in different banks
  static constexpr int kXSlice = S::kBm * kXPitch;
  static constexpr int kWSlice = S::kBk * S::kBn;
  static constexpr int kPartial = S::kSplitK > 1 ? S::kSplitK* S::kBm* S::kBn : 0;
  static constexpr int kChunks = S::kBk / kRun;  ///< of a gathered row
  static constexpr int kRowsAtOnce = S::kThreads / kChunks;
  static constexpr int kRows = S::kBm / kRowsAtOnce;  ///< that a thread gathers
  static constexpr std::size_t kSharedBytes =
      sizeof(T) * static_cast<std::size_t>(S::kStages * (kXSlice + kWSlice) + kPartial);
  static_assert(S::kThreads % kChunks == 0 && S::kBm % kRowsAtOnce == 0 && S::kTn % kRun == 0 &&
                S::kBk % (kRun * S::kSplitK) == 0 && S::kStages >= 2);
};

/// The rows that a thread gathers: pictures and window origins.
template <class X, int kRows>
struct GatheredRows {
  const X* picture[kRows];
  int iy[kRows], ix[kRows];  ///< far outside the image for rows beyond the last pixel
};

template <class X, int kRows>
__device__ __forceinline__ GatheredRows<X, kRows> gathered_rows(const Arguments& a, const X* x, std::uint32_t first,
                                                                int step) {
  constexpr int kOutside = -(1 << 30);
  GatheredRows<X, kRows> rows;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const std::uint32_t pixel = first + static_cast<std::uint32_t>(i * step);
    const bool there = pixel < a.grid.items;
    const Item item = decode(a.grid, there ? pixel : 0);
    rows.picture[i] = x + item.n * a.x_picture();
    rows.iy[i] = there ? static_cast<int>(item.tile_y) * a.stride_h - a.pad_top : kOutside;
    rows.ix[i] = static_cast<int>(item.tile_x) * a.stride_w - a.pad_left;
  }
  return rows;
}

/// Fills this thread's part of a slice of gathered rows. kWhole: runs of k lie within a tap, and in memory on 16 bytes.
template <class S, bool kWhole, class X, class T, int kRows>
__device__ __forceinline__ void gather_slice(const SimtArguments& args, const GatheredRows<X, kRows>& rows, const X* x,
                                             int slice, int first_in, T* to) {
  using Shape = SimtShape<S, T>;
  const Arguments& a = args.conv;
  const int chunk = static_cast<int>(threadIdx.x) % Shape::kChunks;
  to += static_cast<int>(threadIdx.x) / Shape::kChunks * Shape::kXPitch + chunk * Shape::kRun;
  const int k0 = slice * S::kBk + chunk * Shape::kRun;
  Packet<T, Shape::kRun> gathered[kWhole ? 1 : kRows];
#pragma unroll
  for (int e = 0; e < (kWhole ? 1 : Shape::kRun); ++e) {
    const int k = k0 + e;
    std::uint32_t ci = 0;
    std::uint32_t kx = 0;
    const std::uint32_t tap = args.group_in.divide(static_cast<std::uint32_t>(k), ci);
    const std::uint32_t ky = args.kernel_w.divide(tap, kx);
    const int down = static_cast<int>(ky) * a.dilation_h;
    const int right = static_cast<int>(kx) * a.dilation_w;
    const std::ptrdiff_t channel = static_cast<std::ptrdiff_t>(first_in + static_cast<int>(ci)) * a.x_channel;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int iy = rows.iy[i] + down;
      const int ix = rows.ix[i] + right;
      const bool inside = k < args.k && static_cast<unsigned>(iy) < static_cast<unsigned>(a.h) &&
                          static_cast<unsigned>(ix) < static_cast<unsigned>(a.w);
      const X* from = inside ? rows.picture[i] + (iy * a.w + ix) * a.x_pixel + channel : x;
      if constexpr (kWhole) {
        gemm_detail::copy_chunk(reinterpret_cast<unsigned char*>(to + i * Shape::kRowsAtOnce * Shape::kXPitch), from,
                                inside);
      } else {
        gathered[i].item[e] = inside ? static_cast<T>(*from) : T{};
      }
    }
  }
  if constexpr (!kWhole) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) store(to + i * Shape::kRowsAtOnce * Shape::kXPitch, gathered[i]);
  }
}

/// Fills a slice of weights, (kBk, kBn), from column `column` of the packed rows on.
template <class S, class T>
__device__ __forceinline__ void fill_weights(const SimtArguments& args, const T* weight, int slice, int column, T* to) {
  constexpr int kRun = SimtShape<S, T>::kRun;
  constexpr int kChunks = S::kBn / kRun;
  constexpr int kAll = S::kBk * kChunks;
#pragma unroll
  for (int first = 0; first < kAll; first += S::kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (kAll % S::kThreads != 0 && i >= kAll) break;
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int k = slice * S::kBk + row;
    const bool inside = k < args.k && column + chunk * kRun < args.conv.weight_pitch;
    const T* from = weight + static_cast<std::size_t>(k) * args.conv.weight_pitch + column + chunk * kRun;
    gemm_detail::copy_chunk(reinterpret_cast<unsigned char*>(to + i * kRun), inside ? from : weight, inside);
  }
}

/// A thread's sums.
template <class S, class T>
class SimtSums {
 public:
  static constexpr int kRun = SimtShape<S, T>::kRun;
  static constexpr int kRuns = S::kTn / kRun;

  __device__ __forceinline__ void add(const T* x, const T* w) {
    constexpr int kPieces = S::kBk / kRun / S::kSplitK;
    constexpr int kUnroll = S::kTm * S::kTn < 64 ? kPieces : 1;
#pragma unroll kUnroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int k0 = (group() * kPieces + piece) * kRun;
      Packet<T, kRun> left[S::kTm];  // (rows, k)
#pragma unroll
      for (int i = 0; i < S::kTm; ++i) left[i] = load<kRun>(x + row(i) * SimtShape<S, T>::kXPitch + k0);
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
          const auto right = load<kRun>(w + (k0 + k) * S::kBn + column(run));
#pragma unroll
          for (int i = 0; i < S::kTm; ++i) {
#pragma unroll
            for (int e = 0; e < kRun; ++e) {
              T& sum = sums_[i][run * kRun + e];
              sum = fused_multiply_add(left[i].item[k], right.item[e], sum);
            }
          }
        }
      }
    }
  }

  /// Adds the groups' sums, in the order of the groups; afterwards a run belongs to the thread that owns() it.
  __device__ __forceinline__ void meet(T* partial) {
    T* const own = partial + group() * S::kBm * S::kBn;
    for_each_run([&](int i, int run) {
      Packet<T, kRun> values;
#pragma unroll
      for (int e = 0; e < kRun; ++e) values.item[e] = sums_[i][run * kRun + e];
      store(own + row(i) * S::kBn + column(run), values);
    });
    __syncthreads();
    for_each_run([&](int i, int run) {
      if (!owns(i, run)) return;
#pragma unroll
      for (int e = 0; e < kRun; ++e) sums_[i][run * kRun + e] = 0;
#pragma unroll
      for (int other = 0; other < S::kSplitK; ++other) {
        const auto part = load<kRun>(partial + (other * S::kBm + row(i)) * S::kBn + column(run));
#pragma unroll
        for (int e = 0; e < kRun; ++e) sums_[i][run * kRun + e] += part.item[e];
      }
    });
  }

  __device__ __forceinline__ void finish(const Arguments& a, std::uint32_t pixel0, int column0, int group_end,
                                         const float* bias, const T* residual, T* y) const {
    const bool whole_runs = a.c_out % kRun == 0 && group_end % kRun == 0;
    for_each_run([&](int i, int run) {
      const std::uint32_t pixel = pixel0 + static_cast<std::uint32_t>(row(i));
      const int co = column0 + column(run);
      if (!owns(i, run) || pixel >= a.grid.items || co >= group_end) return;
      const std::size_t at = static_cast<std::size_t>(pixel) * a.c_out + co;
      Packet<T, kRun> result;
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        if (co + e >= group_end) break;
        T value = sums_[i][run * kRun + e];
        if (bias != nullptr) value += __ldg(bias + co + e);
        if (residual != nullptr) value += residual[at + e];
        result.item[e] = apply(a.clip, value);
      }
      if (whole_runs) {
        store(y + at, result);
        return;
      }
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        if (co + e < group_end) y[at + e] = result.item[e];
      }
    });
  }

 private:
  // Eight threads side by side make a warp read 128 bytes of a row of weights, and few rows of pixels.
  static constexpr int kLanesN = S::kThreadsN < 8 ? S::kThreadsN : 8;
  static constexpr int kLanesM = 32 / kLanesN < S::kThreadsM ? 32 / kLanesN : S::kThreadsM;
  static constexpr int kPatch = kLanesN * kLanesM;
  static constexpr int kPatchesN = S::kThreadsN / kLanesN;
  static_assert(S::kThreadsN % kLanesN == 0 && S::kThreadsM % kLanesM == 0);

  __device__ __forceinline__ static int thread() {
    return static_cast<int>(threadIdx.x) % (S::kThreadsM * S::kThreadsN);
  }
  __device__ __forceinline__ static int group() {
    return static_cast<int>(threadIdx.x) / (S::kThreadsM * S::kThreadsN);
  }
  __device__ __forceinline__ static int tx() {
    return thread() / kPatch % kPatchesN * kLanesN + thread() % kPatch % kLanesN;
  }
  __device__ __forceinline__ static int ty() {
    return thread() / kPatch / kPatchesN * kLanesM + thread() % kPatch / kLanesN;
  }
  // Of an output, within the block's tile.
  __device__ __forceinline__ static int row(int i) { return ty() + i * S::kThreadsM; }
  __device__ __forceinline__ static int column(int run) { return run * S::kThreadsN * kRun + tx() * kRun; }
  __device__ __forceinline__ static bool owns(int i, int run) {
    return S::kSplitK == 1 || (i * kRuns + run) % S::kSplitK == group();
  }

  template <class Visit>
  __device__ __forceinline__ static void for_each_run(const Visit& visit) {
#pragma unroll
    for (int i = 0; i < S::kTm; ++i) {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) visit(i, run);
    }
  }

  T sums_[S::kTm][S::kTn] = {};
};

/// grid (tiles of pixels, tiles of channels of all groups)
template <class S, bool kWhole, class X, class T>
__global__ void __launch_bounds__(S::kThreads, S::kMinBlocks)
    simt_kernel(const SimtArguments args, const X* x, const T* weight, const float* bias, const T* residual, T* y) {
  using Shape = SimtShape<S, T>;
  extern __shared__ __align__(16) unsigned char simt_shared[];
  T* const x_slices = reinterpret_cast<T*>(simt_shared);
  T* const w_slices = x_slices + S::kStages * Shape::kXSlice;
  [[maybe_unused]] T* const partial = w_slices + S::kStages * Shape::kWSlice;

  const Arguments& a = args.conv;
  const int group = static_cast<int>(blockIdx.y) / args.column_tiles;
  const int group_end = (group + 1) * a.group_out;
  const int column0 = group * a.group_out + (static_cast<int>(blockIdx.y) - group * args.column_tiles) * S::kBn;
  const std::uint32_t pixel0 = blockIdx.x * S::kBm;
  const int first_in = group * a.group_in;

  const auto fill_w = [&](int slot, int slice) {
    fill_weights<S>(args, weight, slice, column0, w_slices + slot * Shape::kWSlice);
  };
  for (int s = 0; s < S::kStages - 1 && s < args.k_slices; ++s) fill_w(s, s);
  const auto rows = gathered_rows<X, Shape::kRows>(a, x, pixel0 + threadIdx.x / static_cast<unsigned>(Shape::kChunks),
                                                   Shape::kRowsAtOnce);
  wait_for_predecessor();

  const auto fill_x = [&](int slot, int slice) {
    gather_slice<S, kWhole>(args, rows, x, slice, first_in, x_slices + slot * Shape::kXSlice);
  };
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) {
    if (s < args.k_slices) fill_x(s, s);
    gemm_detail::close_group();
  }
  SimtSums<S, T> sums;
  int slot = 0;
  for (int slice = 0; slice < args.k_slices; ++slice) {
    gemm_detail::wait_groups<S::kStages - 2>();
    __syncthreads();  // this slice is there for all, and the preceding slice's slot is free
    const int ahead = slice + S::kStages - 1;
    if (ahead < args.k_slices) {
      const int free_slot = slot == 0 ? S::kStages - 1 : slot - 1;
      fill_w(free_slot, ahead);
      fill_x(free_slot, ahead);
    }
    gemm_detail::close_group();
    sums.add(x_slices + slot * Shape::kXSlice, w_slices + slot * Shape::kWSlice);
    slot = slot + 1 == S::kStages ? 0 : slot + 1;
  }
  if constexpr (S::kSplitK > 1) sums.meet(partial);
  sums.finish(a, pixel0, column0, group_end, bias, residual, y);
}

}  // namespace mobicuda::kernels::convolution
