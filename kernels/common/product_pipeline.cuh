// Y = act(X·Wᵀ + bias + residual): what all tiled variants share. A block owns one strip of BN columns and walks
// over row tiles of BM; slices of BK of X (and of W) pass through a ring of STAGES buffers in shared memory, filled
// by cp.async ahead of the arithmetic and across the border between row tiles. The arithmetic of one slice and the
// place of an output in the threads' registers are the Tile's (kernels/gemm, kernels/split_gemm), as is what its Sums
// read of the weights before the predecessor is through, where they have a begin(). Shared memory: bias | partial sums
// (SPLIT_K > 1) | W slices | X slices; see product_shared_bytes().
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/next_weights.cuh"
#include "kernels/common/real.cuh"
#include "kernels/common/slices.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::products {

struct ProductArgs {
  const void* x;  // (m, k)
  const void* w;  // (n, k_packed), zeros from k on
  const float* bias;
  const void* residual;
  void* y;
  int m, n, k;
  int k_packed;
  int x_pitch, y_pitch;
  int k_slices;      // of BK
  int whole_rounds;  // row tiles of each block of a column strip; the first last_round blocks have one more
  int last_round;
  bool y_is_float;
  Activation activation;
  NextWeights next;
};

/// The tile of one variant. Threads: 32 * warps_m * warps_n * warps_k; warps_k groups of warps split each slice
/// along k and add their sums at the end of a tile.
struct MmaConfig {
  int bm, bn, bk;
  int warps_m, warps_n, warps_k;
  int stages;
  bool resident;   ///< W's whole strip stays in shared memory, loaded before wait_for_predecessor()
  int min_blocks;  ///< per multiprocessor, for the register budget
};

/// Each thread owns tm x tn outputs; threads: bm / tm * bn / tn * split_k.
struct SimtConfig {
  int bm, bn, bk;
  int tm, tn;
  int split_k;
  int stages;
  bool resident;
  int min_blocks;
};

// The byte sizes of the parts of shared memory, by Tile.
template <class Tile>
inline constexpr int kBiasBytes = Tile::kBn * 4 + (128 - Tile::kBn * 4 % 128) % 128;
template <class Tile>
inline constexpr int kPartialBytes =
    Tile::kSplitK > 1 ? Tile::kSplitK* Tile::kBm* Tile::kBn* static_cast<int>(sizeof(Real<typename Tile::Value>)) : 0;

/// Shared memory of a launch; `steps` slices are the most that a block sees.
template <class Tile>
constexpr std::size_t product_shared_bytes(int k_slices, std::int64_t steps) {
  const std::int64_t slots = steps < Tile::kStages ? steps : Tile::kStages;
  return static_cast<std::size_t>(kBiasBytes<Tile> + kPartialBytes<Tile> + slots * kXSliceBytes<Tile> +
                                  (Tile::kResident ? std::int64_t{k_slices} : slots) * kWSliceBytes<Tile>);
}

/// kRun neighbouring residuals of a row, zeros outside the matrix.
template <class T, int kRun>
__device__ __forceinline__ Packet<T, kRun> load_residual(const ProductArgs& args, int row, int column) {
  Packet<T, kRun> run{};
  if (row >= args.m || column >= args.n) return run;
  const T* from =
      static_cast<const T*>(args.residual) + static_cast<std::size_t>(row) * static_cast<std::size_t>(args.n) + column;
  if (args.n % kRun == 0) return load<kRun>(from);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    if (column + i < args.n) run.item[i] = from[i];
  }
  return run;
}

template <class T, int kRun, class R>
__device__ __forceinline__ void store_run(const ProductArgs& args, int row, int column, const R (&value)[kRun]) {
  T* to = static_cast<T*>(args.y) + static_cast<std::size_t>(row) * static_cast<std::size_t>(args.y_pitch) + column;
  Packet<T, kRun> run;
#pragma unroll
  for (int i = 0; i < kRun; ++i) run.item[i] = from_real<T>(value[i]);
  if (args.n % kRun == 0) {
    store(to, run);
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    if (column + i < args.n) to[i] = run.item[i];
  }
}

/// Finishes and stores kRun neighbouring sums of a row. `bias` is of these columns, in shared memory.
template <class T, int kRun>
__device__ __forceinline__ void finish_run(const ProductArgs& args, int row, int column, Real<T> (&value)[kRun],
                                           const float* bias, const Packet<T, kRun>& residual) {
  if (row >= args.m || column >= args.n) return;
  const auto offset = load<kRun>(bias);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    value[i] = value[i] + offset.item[i] + to_real(residual.item[i]);
  }
  apply(args.activation, value);
  if (std::is_same_v<T, float> || args.y_is_float) {
    store_run<float>(args, row, column, value);
  } else {
    store_run<T>(args, row, column, value);
  }
}

/// The end of a tile whose sum over k is spread over kSplitK groups of threads: all partial sums meet in shared
/// memory and are added in the order of the groups, four neighbouring columns a thread.
template <class Tile>
class SplitTile {
  using T = typename Tile::Value;

 public:
  /// Starts to load the residuals, long before they are needed.
  __device__ __forceinline__ void begin(const ProductArgs& args, int m0, int n0) {
    if (args.residual == nullptr) return;
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      if (has(i)) residual_[i] = load_residual<T, 4>(args, m0 + row(i), n0 + column(i));
    }
  }

  template <class Sums>
  __device__ __forceinline__ void finish(const ProductArgs& args, const Sums& sums, int m0, int n0, Real<T>* partial,
                                         const float* bias) const {
    sums.store_partial(partial);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      if (!has(i)) break;
      Real<T> value[4] = {};
#pragma unroll
      for (int group = 0; group < Tile::kSplitK; ++group) {
        const auto part = load<4>(partial + (group * kBm + row(i)) * kBn + column(i));
#pragma unroll
        for (int j = 0; j < 4; ++j) value[j] += part.item[j];
      }
      finish_run<T, 4>(args, m0 + row(i), n0 + column(i), value, bias + column(i), residual_[i]);
    }
  }

 private:
  static constexpr int kBm = Tile::kBm;
  static constexpr int kBn = Tile::kBn;
  static constexpr int kRuns = (kBm * kBn / 4 + Tile::kThreads - 1) / Tile::kThreads;

  // Whether this thread has an i-th run, and where it is within the tile.
  __device__ __forceinline__ static bool has(int i) { return kBm * kBn % (4 * Tile::kThreads) == 0 || row(i) < kBm; }
  __device__ __forceinline__ static int row(int i) {
    return static_cast<int>((threadIdx.x + i * Tile::kThreads) / (kBn / 4));
  }
  __device__ __forceinline__ static int column(int i) {
    return static_cast<int>((threadIdx.x + i * Tile::kThreads) % (kBn / 4)) * 4;
  }

  Packet<T, 4> residual_[kRuns] = {};
};

/// kPlain: rows of X and Y are dense, those of X start on 16 bytes, and the activation is Clip. Beside the code of the
/// other activations, and with more row lengths to hold, the compiler gives the sums registers whose banks collide more
/// often.
template <class Tile, bool kPlain>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks) product_kernel(const ProductArgs given) {
  using T = typename Tile::Value;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  ProductArgs args = given;
  if constexpr (kPlain) {
    args.x_pitch = args.k;
    args.y_pitch = args.n;
    args.activation.kind = ActivationKind::Clip;
  }

  const int n0 = static_cast<int>(blockIdx.x) * Tile::kBn;
  const int m_tile_stride = static_cast<int>(gridDim.y);
  int m_tile = static_cast<int>(blockIdx.y);
  const int steps = (args.whole_rounds + (m_tile < args.last_round ? 1 : 0)) * args.k_slices;

  float* const bias = reinterpret_cast<float*>(shared);
  Real<T>* const partial = reinterpret_cast<Real<T>*>(shared + kBiasBytes<Tile>);
  unsigned char* const w_slices = shared + kBiasBytes<Tile> + kPartialBytes<Tile>;
  const int w_slots = Tile::kResident ? args.k_slices : (steps < Tile::kStages ? steps : Tile::kStages);
  unsigned char* const x_slices = w_slices + w_slots * kWSliceBytes<Tile>;

  const auto fill_w = [&](int slot, int k_slice) {
    if constexpr (requires { Tile::fill_w(w_slices, args, n0, k_slice); }) {
      Tile::fill_w(w_slices + slot * kWSliceBytes<Tile>, args, n0, k_slice);
    } else {
      const T* rows =
          static_cast<const T*>(args.w) + static_cast<std::size_t>(n0) * static_cast<std::size_t>(args.k_packed);
      fill_slice<Tile, Tile::kBn, Tile::kWPeriod, false>(w_slices + slot * kWSliceBytes<Tile>, rows, args.n - n0,
                                                         args.k_packed, k_slice * Tile::kBk, args.k_packed,
                                                         [](int n) { return Tile::w_row(n); });
    }
  };
  const auto fill_x = [&](int slot, int tile, int k_slice) {
    const int m0 = tile * Tile::kBm;
    const T* rows =
        static_cast<const T*>(args.x) + static_cast<std::size_t>(m0) * static_cast<std::size_t>(args.x_pitch);
    fill_slice<Tile, Tile::kBm, Tile::kXPeriod, Tile::kAnyShape && !kPlain>(
        x_slices + slot * kXSliceBytes<Tile>, rows, args.m - m0, args.x_pitch, k_slice * Tile::kBk, args.k,
        [](int m) { return m; });
  };

  // Weights and bias do not depend on the predecessor.
  if constexpr (Tile::kResident) {
    for (int k_slice = 0; k_slice < args.k_slices; ++k_slice) fill_w(k_slice, k_slice);
  } else {
    for (int s = 0; s < Tile::kStages - 1 && s < steps; ++s) fill_w(s, s % args.k_slices);
  }
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kBn; i += Tile::kThreads) {
    const bool inside = args.bias != nullptr && n0 + i < args.n;
    ptx::copy_async_ca_or_zero(bias + i, inside ? args.bias + n0 + i : static_cast<const float*>(args.w), inside);
  }
  typename Tile::Sums sums;
  if constexpr (requires { sums.begin(args, n0); }) sums.begin(args, n0);
  if constexpr (!Tile::kPlainApart) bring_next_weights(args.next);
  wait_for_predecessor();

  int ahead_tile = m_tile;  // the slice that is filled next
  int ahead_slice = 0;
  const auto fill_next_x = [&](int slot) {
    fill_x(slot, ahead_tile, ahead_slice);
    if (++ahead_slice == args.k_slices) {
      ahead_slice = 0;
      ahead_tile += m_tile_stride;
    }
  };
#pragma unroll
  for (int s = 0; s < Tile::kStages - 1; ++s) {
    if (s < steps) fill_next_x(s);
    ptx::copy_async_commit();
  }

  [[maybe_unused]] SplitTile<Tile> split;
  int k_slice = 0;
  int slot = 0;
  for (int step = 0; step < steps; ++step) {
    ptx::copy_async_wait<Tile::kStages - 2>();
    __syncthreads();  // this step's slot is full for all, and the preceding step's slot is free
    if (step + Tile::kStages - 1 < steps) {
      const int free_slot = slot == 0 ? Tile::kStages - 1 : slot - 1;
      if constexpr (!Tile::kResident) fill_w(free_slot, ahead_slice);
      fill_next_x(free_slot);
    }
    ptx::copy_async_commit();
    if constexpr (Tile::kSplitK > 1) {
      if (k_slice == 0) split.begin(args, m_tile * Tile::kBm, n0);
    }

    sums.add(x_slices + slot * kXSliceBytes<Tile>, w_slices + (Tile::kResident ? k_slice : slot) * kWSliceBytes<Tile>);

    slot = slot + 1 == Tile::kStages ? 0 : slot + 1;
    if (++k_slice == args.k_slices) {
      if constexpr (Tile::kSplitK > 1) {
        split.finish(args, sums, m_tile * Tile::kBm, n0, partial, bias);
      } else {
        sums.finish(args, m_tile * Tile::kBm, n0, bias);
      }
      sums.clear();
      k_slice = 0;
      m_tile += m_tile_stride;
    }
  }
}

}  // namespace mobicuda::kernels::products
