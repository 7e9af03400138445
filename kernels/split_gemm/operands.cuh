// What the tiles of split_gemm share: how packed weights lie, how a slice of them comes to shared memory, and how X is
// split.
#pragma once

#include "kernels/common/product_pipeline.cuh"
#include "kernels/common/split_halves.cuh"

namespace mobicuda::kernels::split_gemm_detail {

using products::ProductArgs;

// Packed weights: for each step of 16 of k the upper halves of all columns, then the lower ones; of 8 columns the 8x8
// matrices of k 0 to 7 and 8 to 15, a column a row of 16 bytes. Columns and k are not in their own order, see
// column_at() and k_at(); both are filled up with zeros. Behind them floats: the factor of X, three that are not used,
// and for each column, filled up to whole tiles, what undoes both factors.
inline constexpr int kStepK = 16;
inline constexpr int kSlice = 32;         // of k, two steps that change places
inline constexpr int kSpan = 16;          // of columns that change places
inline constexpr int kMatrixBytes = 128;  // 8x8
inline constexpr int kPartBytes = 2 * kMatrixBytes;
inline constexpr int kScalesAt = 4;      // floats
inline constexpr int kWidestTile = 256;  // columns

struct Extents {
  int steps, groups;  // of 16 of k, of 8 columns

  __host__ __device__ constexpr Extents(int n, int k)
      : steps((k + kSlice - 1) / kSlice * (kSlice / kStepK)), groups((n + kSpan - 1) / kSpan * 2) {}

  /// Of the packed halves.
  __host__ __device__ constexpr std::size_t bytes() const {
    return static_cast<std::size_t>(steps) * static_cast<std::size_t>(groups) * (2 * kPartBytes);
  }
};

/// The column that stands at this place of its span: the instruction's columns 2t and 2t + 1 of two groups of 8 are
/// four neighbours, lane t's.
constexpr int column_at(int place) { return place % 8 / 2 * 4 + place / 8 * 2 + place % 2; }

/// Which of a slice's 16-byte chunks of a row of X lane t of a quad reads in a step: neighbouring rows read even and
/// odd ones at once.
__host__ __device__ constexpr int chunk_of(int step, int t) { return 2 * t + step; }

/// The k of the slice that stands at this place of a step: where the instruction has k 2t, 2t + 1, 2t + 8 and 2t + 9,
/// lane t's chunk.
constexpr int k_at(int step, int place) { return chunk_of(step, place % 8 / 2) * 4 + place / 8 * 2 + place % 2; }

/// The slice of kBk of k, of columns n0 to n0 + kBn: for each step the columns' upper parts, then their lower ones.
template <class Tile>
__device__ __forceinline__ void fill_weights(unsigned char* slice, const ProductArgs& args, int n0, int k_slice) {
  constexpr int kGroups = Tile::kBn / 8;
  constexpr int kParts = Tile::kBk / kStepK * 2;  // upper and lower ones of each step
  constexpr int kPartChunks = kPartBytes / kChunkBytes;
  constexpr int kChunks = kParts * kGroups * kPartChunks;
  const Extents all(args.n, args.k);
#pragma unroll
  for (int i = 0; i < (kChunks + Tile::kThreads - 1) / Tile::kThreads; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
    if (kChunks % Tile::kThreads != 0 && at >= kChunks) break;
    const int chunk = at % kPartChunks;
    const int group = at / kPartChunks % kGroups;
    const int part = k_slice * kParts + at / (kPartChunks * kGroups);
    const bool inside = part < all.steps * 2 && n0 / 8 + group < all.groups;
    const std::size_t from = static_cast<std::size_t>(part) * static_cast<std::size_t>(all.groups) +
                             static_cast<std::size_t>(n0 / 8 + group);
    const auto* w = static_cast<const unsigned char*>(args.w);
    ptx::copy_async_cg_128_or_zero(slice + at * kChunkBytes, inside ? w + from * kPartBytes + chunk * kChunkBytes : w,
                                   inside);
  }
}

/// The factors behind the packed weights, of columns n0 on.
struct Factors {
  float x = 0.0F;
  const float* undo = nullptr;

  __device__ __forceinline__ void load(const ProductArgs& args, int n0) {
    const auto* factors =
        reinterpret_cast<const float*>(static_cast<const unsigned char*>(args.w) + Extents(args.n, args.k).bytes());
    x = *factors;
    undo = factors + kScalesAt + n0;
  }
};

/// 16 rows and k of X as the instructions have them.
struct XFragment {
  std::uint32_t hi[4], lo[4];

  /// `from`: four floats of the lane's first row, which the other one is kNextRow bytes behind.
  template <int kNextRow>
  __device__ __forceinline__ void load(const unsigned char* from, float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // of the rows
      const auto x = kernels::load<4>(reinterpret_cast<const float*>(from + half * kNextRow));
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const Halves halves = split(x.item[2 * pair] * scale, x.item[2 * pair + 1] * scale);
        hi[pair * 2 + half] = halves.hi;
        lo[pair * 2 + half] = halves.lo;
      }
    }
  }
};

}  // namespace mobicuda::kernels::split_gemm_detail
