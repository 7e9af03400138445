// The fp16 tile on tensor cores: mma.sync m16n8k16, half inputs, float sums. sm_80 and newer.
// A warp owns (bm / warps_m) x (bn / warps_n) outputs. Its columns are dealt to the instruction's columns so that each
// thread ends up with 8 (or 4) neighbouring outputs of a row, which it stores at once: see w_row().
#pragma once

#include "kernels/gemm/pipeline.cuh"

namespace mobicuda::kernels::gemm_detail {

/// Four 8x8 matrices of half; thread t gives the address of row t % 8 of matrix t / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t (&registers)[4], const unsigned char* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
}

/// sum += a (16 x 16) * b (16 x 8).
__device__ __forceinline__ void multiply_add([[maybe_unused]] float (&sum)[4],
                                             [[maybe_unused]] const std::uint32_t (&a)[4],
                                             [[maybe_unused]] std::uint32_t b0, [[maybe_unused]] std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

template <MmaConfig kConfig>
struct MmaTile {
  using Value = __half;
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kSplitK = kConfig.warps_k;
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kResident = kConfig.resident;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kThreads = 32 * kConfig.warps_m * kConfig.warps_n * kConfig.warps_k;
  static constexpr bool kAnyShape = false;
  static constexpr bool kPlainApart = false;
  static constexpr int kRowBytes = kBk * 2;
  static constexpr int kXPeriod = 8;  // of chunk_offset()

  static constexpr int kWarpM = kBm / kConfig.warps_m;
  static constexpr int kWarpN = kBn / kConfig.warps_n;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static constexpr int kGroup = kFragmentsN % 4 == 0 ? 4 : 2;  // fragments whose columns are dealt out together
  static constexpr int kGroups = kFragmentsN / kGroup;
  static constexpr int kRun = 2 * kGroup;      // neighbouring outputs of a thread
  static constexpr int kWPeriod = 8 * kGroup;  // of w_row() and chunk_offset()
  static constexpr int kStepsK = kBk / 16 / kSplitK;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kBk % (16 * kSplitK) == 0 && kStages >= 2);
  static_assert((kBk & (kBk - 1)) == 0, "the swizzle needs a power of two");

  /// Where chunk `chunk` of a row lies in a slice: exchanged within the row so that 8 neighbouring rows of one chunk,
  /// which an ldmatrix reads, lie in different banks.
  __device__ __forceinline__ static int chunk_offset(int row, int chunk) {
    constexpr int kChunks = kRowBytes / kChunkBytes;
    constexpr int kRowsPerLine = kChunks < 8 ? 8 / kChunks : 1;
    constexpr int kMask = kChunks < 8 ? kChunks - 1 : 7;
    return row * kRowBytes + ((chunk ^ (row / kRowsPerLine & kMask)) * kChunkBytes);
  }

  /// Column n = (group, t, fragment, e) of the strip lies in row (group, fragment, t, e) of its slice: thread t of a
  /// quad receives columns 2t + e of each fragment, hence kRun neighbours of n.
  __device__ __forceinline__ static int w_row(int n) {
    constexpr unsigned kSpan = 8 * kGroup;
    const unsigned in_group = static_cast<unsigned>(n) % kSpan;
    return n + static_cast<int>(in_group % kRun / 2 * 8 + in_group / kRun * 2 + in_group % 2 - in_group);
  }

  class Sums {
   public:
    __device__ __forceinline__ Sums() { clear(); }

    __device__ __forceinline__ void clear() {
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
#pragma unroll
          for (float& sum : sum_[i][j]) sum = 0.0F;
        }
      }
    }

    __device__ __forceinline__ void add(const unsigned char* x, const unsigned char* w) {
      const int x_row = warp_m() * kWarpM + lane() % 16;
      const int w_row = warp_n() * kWarpN + lane() % 8 + lane() / 16 * 8;
#pragma unroll
      for (int step = 0; step < kStepsK; ++step) {
        const int chunk = (warp_k() * kStepsK + step) * 2;
        const unsigned char* const x_chunk = x + chunk_offset(x_row, chunk + lane() / 16);
        const unsigned char* const w_chunk = w + chunk_offset(w_row, chunk + lane() / 8 % 2);
        std::uint32_t a[kFragmentsM][4];
        std::uint32_t b[kFragmentsN / 2][4];  // {b0, b1} of two fragments
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) load_matrices(a[i], x_chunk + i * 16 * kRowBytes);
#pragma unroll
        for (int j = 0; j < kFragmentsN / 2; ++j) load_matrices(b[j], w_chunk + j * 16 * kRowBytes);
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
          for (int j = 0; j < kFragmentsN; ++j) {
            multiply_add(sum_[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
          }
        }
      }
    }

    __device__ __forceinline__ void finish(const GemmArgs& args, int m0, int n0, const float* bias) const {
      constexpr int kBatch = kRuns % 4 == 0 ? 4 : 2;  // residuals under way at once
#pragma unroll
      for (int first = 0; first < kRuns; first += kBatch) {
        Packet<Value, kRun> residual[kBatch] = {};
        if (args.residual != nullptr) {
#pragma unroll
          for (int i = 0; i < kBatch; ++i) {
            residual[i] = load_residual<Value, kRun>(args, m0 + row(first + i), n0 + column(first + i));
          }
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int run = first + i;
          Packet<float, kRun> sums = gather(run);
          finish_run<Value, kRun>(args, m0 + row(run), n0 + column(run), sums.item, bias + column(run), residual[i]);
        }
      }
    }

    /// Into (kSplitK, kBm, kBn).
    __device__ __forceinline__ void store_partial(float* partial) const {
      partial += warp_k() * kBm * kBn;
      visit_runs(
          [&](int row, int column, const Packet<float, kRun>& sums) { store(partial + row * kBn + column, sums); });
    }

    /// Calls visit(row, column, sums) for the thread's runs of kRun neighbours, rows and columns of the block's tile.
    template <class Visit>
    __device__ __forceinline__ void visit_runs(const Visit& visit) const {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) visit(row(run), column(run), gather(run));
    }

   private:
    static constexpr int kRuns = kFragmentsM * 2 * kGroups;

    __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
    __device__ __forceinline__ static int warp() { return static_cast<int>(threadIdx.x / 32); }
    __device__ __forceinline__ static int warp_m() { return warp() % kConfig.warps_m; }
    __device__ __forceinline__ static int warp_n() { return warp() / kConfig.warps_m % kConfig.warps_n; }
    __device__ __forceinline__ static int warp_k() { return warp() / (kConfig.warps_m * kConfig.warps_n); }

    // Of a run, within the block's tile. Runs are numbered (fragment of rows, group, upper or lower half).
    __device__ __forceinline__ static int row(int run) {
      return warp_m() * kWarpM + run / (2 * kGroups) * 16 + run % 2 * 8 + lane() / 4;
    }
    __device__ __forceinline__ static int column(int run) {
      return warp_n() * kWarpN + run / 2 % kGroups * (8 * kGroup) + lane() % 4 * kRun;
    }

    __device__ __forceinline__ Packet<float, kRun> gather(int run) const {
      Packet<float, kRun> values;
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        values.item[e] = sum_[run / (2 * kGroups)][run / 2 % kGroups * kGroup + e / 2][run % 2 * 2 + e % 2];
      }
      return values;
    }

    float sum_[kFragmentsM][kFragmentsN][4];
  };
};

}  // namespace mobicuda::kernels::gemm_detail
