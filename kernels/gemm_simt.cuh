// The tile on the ordinary float units: exact float products and sums (no TF32), of float or half elements, any shape.
// Thread (tx, ty) of k group g owns rows ty + i * kThreadsM and, in runs of four, tn columns. It reads X and W four
// values of k at a time, so neither is transposed in shared memory; padding each row by 16 bytes keeps 8 neighbouring
// rows in different banks.
#pragma once

#include "gemm_pipeline.cuh"

namespace mobicuda::kernels::gemm_detail {

template <class T, SimtConfig kConfig>
struct SimtTile {
  using Value = T;
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kTm = kConfig.tm;
  static constexpr int kTn = kConfig.tn;
  static constexpr int kSplitK = kConfig.split_k;
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kResident = kConfig.resident;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kThreadsM = kBm / kTm;
  static constexpr int kThreadsN = kBn / kTn;
  static constexpr int kThreads = kThreadsM * kThreadsN * kSplitK;
  static constexpr bool kAnyShape = true;
  static constexpr int kRowBytes = kBk * static_cast<int>(sizeof(T)) + kChunkBytes;
  static constexpr int kRun = 4;
  static constexpr int kXPeriod = 1;
  static constexpr int kWPeriod = kThreadsN * kRun;  // of w_row()
  static constexpr int kRuns = kTn / kRun;
  static constexpr int kQuads = kBk / 4 / kSplitK;  // four-element pieces of a slice, for each k group
  static_assert(kTn % kRun == 0 && kBk % (4 * kSplitK) == 0 && kStages >= 2);

  __device__ __forceinline__ static int chunk_offset(int row, int chunk) {
    return row * kRowBytes + chunk * kChunkBytes;
  }

  /// Column n = (run, tx, e) of the strip lies in row (run, e, tx) of its slice: threads that differ in tx read
  /// neighbouring rows.
  __device__ __forceinline__ static int w_row(int n) {
    constexpr unsigned kSpan = kThreadsN * kRun;
    const unsigned in_span = static_cast<unsigned>(n) % kSpan;
    return n + static_cast<int>(in_span % kRun * kThreadsN + in_span / kRun - in_span);
  }

  class Sums {
   public:
    __device__ __forceinline__ Sums() { clear(); }

    __device__ __forceinline__ void clear() {
#pragma unroll
      for (int i = 0; i < kTm; ++i) {
#pragma unroll
        for (float& sum : sum_[i]) sum = 0.0F;
      }
    }

    __device__ __forceinline__ void add(const unsigned char* x, const unsigned char* w) {
      constexpr int kUnroll = kTm * kTn < 64 ? kQuads : 1;  // more of the largest tile costs moves between registers
#pragma unroll kUnroll
      for (int quad = 0; quad < kQuads; ++quad) {
        const int k_bytes = (group() * kQuads + quad) * 4 * static_cast<int>(sizeof(T));
        float a[kTm][4];  // (rows, k)
#pragma unroll
        for (int i = 0; i < kTm; ++i) load_quad(a[i], x + (ty() + i * kThreadsM) * kRowBytes + k_bytes);
#pragma unroll
        for (int j = 0; j < kTn; ++j) {
          float b[4];  // (k)
          load_quad(b, w + (tx() + j * kThreadsN) * kRowBytes + k_bytes);
#pragma unroll
          for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int i = 0; i < kTm; ++i) sum_[i][j] = fmaf(a[i][k], b[k], sum_[i][j]);
          }
        }
      }
    }

    __device__ __forceinline__ void finish(const GemmArgs& args, int m0, int n0, const float* bias) const {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        Packet<T, kRun> residual[kTm] = {};
        if (args.residual != nullptr) {
#pragma unroll
          for (int i = 0; i < kTm; ++i) residual[i] = load_residual<T, kRun>(args, m0 + row(i), n0 + column(run));
        }
#pragma unroll
        for (int i = 0; i < kTm; ++i) {
          float value[kRun];
#pragma unroll
          for (int e = 0; e < kRun; ++e) value[e] = sum_[i][run * kRun + e];
          finish_run<T, kRun>(args, m0 + row(i), n0 + column(run), value, bias + column(run), residual[i]);
        }
      }
    }

    /// Into (kSplitK, kBm, kBn).
    __device__ __forceinline__ void store_partial(float* partial) const {
      partial += group() * kBm * kBn;
#pragma unroll
      for (int i = 0; i < kTm; ++i) {
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
          Packet<float, kRun> values;
#pragma unroll
          for (int e = 0; e < kRun; ++e) values.item[e] = sum_[i][run * kRun + e];
          store(partial + row(i) * kBn + column(run), values);
        }
      }
    }

   private:
    // Eight threads side by side make a warp read 8 rows of W and 4 of X, instead of 16 and 2.
    static constexpr int kLanesN = kThreadsN < 8 ? kThreadsN : 8;
    static constexpr int kLanesM = 32 / kLanesN < kThreadsM ? 32 / kLanesN : kThreadsM;
    static constexpr int kPatch = kLanesN * kLanesM;  // threads of one warp that work on the same k
    static constexpr int kPatchesN = kThreadsN / kLanesN;
    static_assert(kThreadsN % kLanesN == 0 && kThreadsM % kLanesM == 0);

    __device__ __forceinline__ static int thread() { return static_cast<int>(threadIdx.x % (kThreadsM * kThreadsN)); }
    __device__ __forceinline__ static int group() { return static_cast<int>(threadIdx.x / (kThreadsM * kThreadsN)); }
    __device__ __forceinline__ static int tx() {
      return thread() / kPatch % kPatchesN * kLanesN + thread() % kPatch % kLanesN;
    }
    __device__ __forceinline__ static int ty() {
      return thread() / kPatch / kPatchesN * kLanesM + thread() % kPatch / kLanesN;
    }
    // Of an output, within the block's tile.
    __device__ __forceinline__ static int row(int i) { return ty() + i * kThreadsM; }
    __device__ __forceinline__ static int column(int run) { return run * kThreadsN * kRun + tx() * kRun; }

    __device__ __forceinline__ static void load_quad(float (&value)[4], const unsigned char* from) {
      const auto packet = load<4>(reinterpret_cast<const T*>(from));
#pragma unroll
      for (int i = 0; i < 4; ++i) value[i] = to_float(packet.item[i]);
    }

    float sum_[kTm][kTn];
  };
};

}  // namespace mobicuda::kernels::gemm_detail
