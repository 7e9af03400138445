// The tile on the ordinary float units: exact products and sums in float (no TF32) of float or half elements, in double
// of double ones; any shape.
// Thread (tx, ty) of k group g owns rows ty + i * kThreadsM and, in runs of four, tn columns. It reads X and W four
// values of k at a time (two in double), so neither is transposed in shared memory; padding each row by 16 bytes keeps
// 8 neighbouring rows in different banks.
#pragma once

#include "kernels/common/product_pipeline.cuh"

namespace mobicuda::kernels::products {

template <class T, SimtConfig kConfig>
struct SimtTile {
  using Value = T;
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kTm = kConfig.tm;
  static constexpr int kTn = kConfig.tn;
  static constexpr int kSplitK = kConfig.split_k;
  // Elements of double take twice the shared memory and registers.
  static constexpr bool kDouble = std::is_same_v<T, double>;
  static constexpr int kStages = kDouble && kConfig.stages > 3 ? kConfig.stages / 2 : kConfig.stages;
  static constexpr bool kResident = kConfig.resident && !kDouble;
  static constexpr int kMinBlocks = kDouble && kConfig.min_blocks > 1 ? kConfig.min_blocks / 2 : kConfig.min_blocks;
  static constexpr int kThreadsM = kBm / kTm;
  static constexpr int kThreadsN = kBn / kTn;
  static constexpr int kThreads = kThreadsM * kThreadsN * kSplitK;
  static constexpr bool kAnyShape = true;
  static constexpr bool kPlainApart = !std::is_same_v<T, __half>;  ///< has a kernel of kPlain
  static constexpr int kRowBytes = kBk * static_cast<int>(sizeof(T)) + kChunkBytes;
  static constexpr int kRun = 4;
  static constexpr int kXPeriod = 1;
  static constexpr int kWPeriod = kThreadsN * kRun;  // of w_row()
  static constexpr int kRuns = kTn / kRun;
  static constexpr int kPiece = kDouble ? 2 : 4;
  static constexpr int kPieces = kBk / kPiece / kSplitK;  // of a row of a slice, for each k group
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
        for (Real<T>& sum : sum_[i]) sum = 0;
      }
    }

    __device__ __forceinline__ void add(const unsigned char* x, const unsigned char* w) {
      constexpr int kUnroll = kTm * kTn < 64 ? kPieces : 1;  // more of the largest tile costs moves between registers
#pragma unroll kUnroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const int k_bytes = (group() * kPieces + piece) * kPiece * static_cast<int>(sizeof(T));
        Real<T> a[kTm][kPiece];  // (rows, k)
#pragma unroll
        for (int i = 0; i < kTm; ++i) load_piece(a[i], x + (ty() + i * kThreadsM) * kRowBytes + k_bytes);
#pragma unroll
        for (int j = 0; j < kTn; ++j) {
          Real<T> b[kPiece];  // (k)
          load_piece(b, w + (tx() + j * kThreadsN) * kRowBytes + k_bytes);
#pragma unroll
          for (int k = 0; k < kPiece; ++k) {
#pragma unroll
            for (int i = 0; i < kTm; ++i) sum_[i][j] = fused_multiply_add(a[i][k], b[k], sum_[i][j]);
          }
        }
      }
    }

    __device__ __forceinline__ void finish(const ProductArgs& args, int m0, int n0, const float* bias) const {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        Packet<T, kRun> residual[kTm] = {};
        if (args.residual != nullptr) {
#pragma unroll
          for (int i = 0; i < kTm; ++i) residual[i] = load_residual<T, kRun>(args, m0 + row(i), n0 + column(run));
        }
#pragma unroll
        for (int i = 0; i < kTm; ++i) {
          Real<T> value[kRun];
#pragma unroll
          for (int e = 0; e < kRun; ++e) value[e] = sum_[i][run * kRun + e];
          finish_run<T, kRun>(args, m0 + row(i), n0 + column(run), value, bias + column(run), residual[i]);
        }
      }
    }

    /// Into (kSplitK, kBm, kBn).
    __device__ __forceinline__ void store_partial(Real<T>* partial) const {
      partial += group() * kBm * kBn;
#pragma unroll
      for (int i = 0; i < kTm; ++i) {
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
          Packet<Real<T>, kRun> values;
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

    __device__ __forceinline__ static void load_piece(Real<T> (&value)[kPiece], const unsigned char* from) {
      const auto packet = load<kPiece>(reinterpret_cast<const T*>(from));
#pragma unroll
      for (int i = 0; i < kPiece; ++i) value[i] = to_real(packet.item[i]);
    }

    Real<T> sum_[kTm][kTn];
  };
};

}  // namespace mobicuda::kernels::products
