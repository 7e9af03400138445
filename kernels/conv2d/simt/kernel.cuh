#pragma once

#include "kernels/common/fast_division.cuh"
#include "kernels/common/real.cuh"
#include "kernels/conv2d/arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::convolution {

// Any convolution as a matrix product that gathers its left factor: rows are output pixels, columns a group's output
// channels, k counts (ky, kx, ci), as the packed weights do. Exact float (no TF32) or double; half is multiplied and
// added as float.
// Block -> kBm pixels x kBn channels of one group. Slices of kBk of both factors pass through a ring of kStages buffers
// in shared memory, filled ahead of the arithmetic; pixels outside the image are filled with zeros.
// Thread of k group g -> kTm rows and, in runs of 16 bytes, kTn columns; it reads the gathered rows 16 bytes of k at a
// time. kSplitK groups share each slice, their sums meet in shared memory at the end. Double has tensor cores:
// dmma.cuh.

struct GatheredArguments {
  Arguments conv;         ///< grid: items are pixels
  FastDivision group_in;  ///< k -> tap, ci
  FastDivision kernel_w;  ///< tap -> ky, kx
  int k;
  int k_slices;
  int column_tiles;  ///< of a group
};

/// What of a configuration depends on the element type. kXPad, kWPad: elements behind a row in shared memory, which
/// keep the rows that are read at once in different banks.
template <class S, class T, int kXPad, int kWPad>
struct GatheredShape {
  static constexpr int kRun = kWide<T>;  ///< elements of one access
  static constexpr int kXPitch = S::kBk + kXPad;
  static constexpr int kWPitch = S::kBn + kWPad;
  static constexpr int kXSlice = S::kBm * kXPitch;
  static constexpr int kWSlice = S::kBk * kWPitch;
  static constexpr int kPartial = S::kSplitK > 1 ? S::kSplitK* S::kBm* S::kBn : 0;
  static constexpr int kChunks = S::kBk / kRun;  ///< of a gathered row
  static constexpr int kRowsAtOnce = S::kThreads / kChunks;
  static constexpr int kRows = S::kBm / kRowsAtOnce;  ///< that a thread gathers
  static constexpr std::size_t kSharedBytes =
      sizeof(T) * static_cast<std::size_t>(S::kStages * (kXSlice + kWSlice) + kPartial);
  static_assert(S::kThreads % kChunks == 0 && S::kBm % kRowsAtOnce == 0 && S::kBk % (kRun * S::kSplitK) == 0 &&
                S::kStages >= 2);
};

template <class S, class T>
using SimtShape = GatheredShape<S, T, kWide<T>, 0>;
template <class S, class T>
class SimtSums;

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
  template <class T>
  using Shape = SimtShape<Simt, T>;
  template <class T>
  using Sums = SimtSums<Simt, T>;
};

/// The rows that a thread gathers: images and window origins.
template <int kRows>
struct GatheredRows {
  std::uint32_t n[kRows];
  int iy[kRows], ix[kRows];  ///< far outside the image for rows beyond the last pixel
};

template <int kRows>
__device__ __forceinline__ GatheredRows<kRows> gathered_rows(const Arguments& a, std::uint32_t first, int step) {
  constexpr int kOutside = -(1 << 30);
  GatheredRows<kRows> rows;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const std::uint32_t pixel = first + static_cast<std::uint32_t>(i * step);
    const bool there = pixel < a.grid.items;
    const Item item = decode(a.grid, there ? pixel : 0);
    rows.n[i] = item.n;
    rows.iy[i] = there ? static_cast<int>(item.tile_y) * a.stride_h - a.pad_top : kOutside;
    rows.ix[i] = static_cast<int>(item.tile_x) * a.stride_w - a.pad_left;
  }
  return rows;
}

/// Fills this thread's part of a slice of gathered rows. kWhole: runs of k lie within a tap, and in memory on 16 bytes.
template <class S, bool kWhole, class X, class T, int kRows>
__device__ __forceinline__ void gather_slice(const GatheredArguments& args, const GatheredRows<kRows>& rows, const X* x,
                                             int slice, int first_in, T* to) {
  using Shape = typename S::template Shape<T>;
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
      const X* from = inside ? x + rows.n[i] * a.x_picture() + (iy * a.w + ix) * a.x_pixel + channel : x;
      if constexpr (kWhole) {
        ptx::copy_async_cg_128_or_zero(reinterpret_cast<unsigned char*>(to + i * Shape::kRowsAtOnce * Shape::kXPitch),
                                       from, inside);
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

/// Fills a slice of weights, (kBk, kBn), from column `column` of the packed rows on. Half becomes float on the way.
template <class S, class E, class T>
__device__ __forceinline__ void fill_weights(const GatheredArguments& args, const E* weight, int slice, int column,
                                             T* to) {
  using Shape = typename S::template Shape<T>;
  constexpr int kRun = Shape::kRun;
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
    const E* from = weight + static_cast<std::size_t>(k) * args.conv.weight_pitch + column + chunk * kRun;
    T* const into = to + row * Shape::kWPitch + chunk * kRun;
    if constexpr (std::is_same_v<E, T>) {
      ptx::copy_async_cg_128_or_zero(reinterpret_cast<unsigned char*>(into), inside ? from : weight, inside);
    } else {
      const auto packed = inside ? load<kRun>(from) : Packet<E, kRun>{};
      Packet<T, kRun> values;
#pragma unroll
      for (int e = 0; e < kRun; ++e) values.item[e] = to_real(packed.item[e]);
      store(into, values);
    }
  }
}

/// A thread's sums, on the ordinary units.
template <class S, class T>
class SimtSums {
 public:
  static constexpr int kRun = SimtShape<S, T>::kRun;  ///< neighbouring outputs

  __device__ __forceinline__ void add(const T* x, const T* w) {
    using Shape = SimtShape<S, T>;
    constexpr int kPieces = S::kBk / kRun / S::kSplitK;
    constexpr int kUnroll = S::kTm * S::kTn < 64 ? kPieces : 1;
#pragma unroll kUnroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int k0 = (group() * kPieces + piece) * kRun;
      Packet<T, kRun> left[S::kTm];  // (rows, k)
#pragma unroll
      for (int i = 0; i < S::kTm; ++i) left[i] = load<kRun>(x + row(i) * Shape::kXPitch + k0);
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
          const auto right = load<kRun>(w + (k0 + k) * Shape::kWPitch + column(run));
#pragma unroll
          for (int i = 0; i < S::kTm; ++i) {
#pragma unroll
            for (int e = 0; e < kRun; ++e) {
              T& sum = sums_[i][run][e];
              sum = fused_multiply_add(left[i].item[k], right.item[e], sum);
            }
          }
        }
      }
    }
  }

  /// Calls visit(number, row, column, sums) for the runs of this thread; rows and columns of the block's tile.
  template <class Visit>
  __device__ __forceinline__ void for_each_run(const Visit& visit) {
#pragma unroll
    for (int i = 0; i < S::kTm; ++i) {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) visit(i * kRuns + run, row(i), column(run), sums_[i][run]);
    }
  }

  __device__ __forceinline__ static int group() {
    return static_cast<int>(threadIdx.x) / (S::kThreadsM * S::kThreadsN);
  }

 private:
  static constexpr int kRuns = S::kTn / kRun;
  // Eight threads side by side make a warp read 128 bytes of a row of weights, and few rows of pixels.
  static constexpr int kLanesN = S::kThreadsN < 8 ? S::kThreadsN : 8;
  static constexpr int kLanesM = 32 / kLanesN < S::kThreadsM ? 32 / kLanesN : S::kThreadsM;
  static constexpr int kPatch = kLanesN * kLanesM;
  static constexpr int kPatchesN = S::kThreadsN / kLanesN;
  static_assert(S::kThreadsN % kLanesN == 0 && S::kThreadsM % kLanesM == 0);

  __device__ __forceinline__ static int thread() {
    return static_cast<int>(threadIdx.x) % (S::kThreadsM * S::kThreadsN);
  }
  __device__ __forceinline__ static int row(int i) {
    return thread() / kPatch / kPatchesN * kLanesM + thread() % kPatch / kLanesN + i * S::kThreadsM;
  }
  __device__ __forceinline__ static int column(int run) {
    return (run * S::kThreadsN + thread() / kPatch % kPatchesN * kLanesN + thread() % kPatch % kLanesN) * kRun;
  }

  T sums_[S::kTm][kRuns][kRun] = {};
};

/// Whether this thread finishes its run of that number, when groups share sums.
template <class S, class Sums>
__device__ __forceinline__ bool owns(int number) {
  return S::kSplitK == 1 || number % S::kSplitK == Sums::group();
}

/// Adds the groups' sums, in the order of the groups; afterwards a run is complete with the thread that owns() it.
template <class S, class Sums, class T>
__device__ __forceinline__ void meet(Sums& sums, T* partial) {
  constexpr int kRun = Sums::kRun;
  T* const own = partial + Sums::group() * S::kBm * S::kBn;
  sums.for_each_run([&](int, int row, int column, T(&run)[kRun]) {
    Packet<T, kRun> values;
#pragma unroll
    for (int e = 0; e < kRun; ++e) values.item[e] = run[e];
    store(own + row * S::kBn + column, values);
  });
  __syncthreads();
  sums.for_each_run([&](int number, int row, int column, T(&run)[kRun]) {
    if (!owns<S, Sums>(number)) return;
#pragma unroll
    for (int e = 0; e < kRun; ++e) run[e] = 0;
#pragma unroll
    for (int group = 0; group < S::kSplitK; ++group) {
      const auto part = load<kRun>(partial + (group * S::kBm + row) * S::kBn + column);
#pragma unroll
      for (int e = 0; e < kRun; ++e) run[e] += part.item[e];
    }
  });
}

/// Finishes and stores a tile whose first output is (pixel0, column0), of a group whose channels end at group_end.
template <class S, class T, class Sums, class E>
__device__ __forceinline__ void finish(const Arguments& a, Sums& sums, std::uint32_t pixel0, int column0, int group_end,
                                       const float* bias, const E* residual, E* y) {
  constexpr int kRun = Sums::kRun;
  const bool whole_runs = a.c_out % kRun == 0 && group_end % kRun == 0;
  sums.for_each_run([&](int number, int row, int column, const T(&run)[kRun]) {
    const std::uint32_t pixel = pixel0 + static_cast<std::uint32_t>(row);
    const int co = column0 + column;
    if (!owns<S, Sums>(number) || pixel >= a.grid.items || co >= group_end) return;
    const std::size_t at = static_cast<std::size_t>(pixel) * a.c_out + co;
    Packet<E, kRun> result;
#pragma unroll
    for (int e = 0; e < kRun; ++e) {
      if (co + e >= group_end) break;
      T value = run[e];
      if (bias != nullptr) value += __ldg(bias + co + e);
      if (residual != nullptr) value += to_real(residual[at + e]);
      result.item[e] = from_real<E>(apply_compactly(a.activation, value));
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

/// grid (tiles of pixels, tiles of channels of all groups). E: the element type of weights, residual and y.
template <class S, bool kWhole, class X, class E>
__global__ void __launch_bounds__(S::kThreads, S::kMinBlocks)
    gathered_kernel(const GatheredArguments args, const X* x, const E* weight, const float* bias, const E* residual,
                    E* y) {
  using T = Real<E>;
  using Shape = typename S::template Shape<T>;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, gathered_shared);
  T* const x_slices = reinterpret_cast<T*>(gathered_shared);
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
  const auto rows =
      gathered_rows<Shape::kRows>(a, pixel0 + threadIdx.x / static_cast<unsigned>(Shape::kChunks), Shape::kRowsAtOnce);
  wait_for_predecessor();

  const auto fill_x = [&](int slot, int slice) {
    gather_slice<S, kWhole>(args, rows, x, slice, first_in, x_slices + slot * Shape::kXSlice);
  };
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) {
    if (s < args.k_slices) fill_x(s, s);
    ptx::copy_async_commit();
  }
  typename S::template Sums<T> sums;
  int slot = 0;
  for (int slice = 0; slice < args.k_slices; ++slice) {
    ptx::copy_async_wait<S::kStages - 2>();
    __syncthreads();  // this slice is there for all, and the preceding slice's slot is free
    const int ahead = slice + S::kStages - 1;
    if (ahead < args.k_slices) {
      const int free_slot = slot == 0 ? S::kStages - 1 : slot - 1;
      fill_w(free_slot, ahead);
      fill_x(free_slot, ahead);
    }
    ptx::copy_async_commit();
    sums.add(x_slices + slot * Shape::kXSlice, w_slices + slot * Shape::kWSlice);
    slot = slot + 1 == S::kStages ? 0 : slot + 1;
  }
  if constexpr (S::kSplitK > 1) meet<S>(sums, partial);
  finish<S, T>(a, sums, pixel0, column0, group_end, bias, residual, y);
}

}  // namespace mobicuda::kernels::convolution
