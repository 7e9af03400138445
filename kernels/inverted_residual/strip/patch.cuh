// What a warp of the strip inverted residual kernel reads of x: two strips' patches, copied to shared memory ahead of
// the arithmetic. sm_80 and newer.
#pragma once

#include "kernels/inverted_residual/small/instructions.cuh"
#include "kernels/inverted_residual/strip/shape.cuh"

namespace mobicuda::kernels::inverted_strip {

// Read anew every time: what the compiler would make of them ahead of the loops would be spilled in them.
__device__ __forceinline__ unsigned lane() {
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
__device__ __forceinline__ unsigned warp() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread / 32;
}

/// Has the compiler take the value as it is, instead of computing it anew for each use.
template <class T>
__device__ __forceinline__ void settle(T& value) {
  if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
}

/// Zeros if not `present`; then `from` may be anywhere. `kPast` the first-level cache.
template <bool kPast>
__device__ __forceinline__ void copy_chunk(std::uint32_t to, const unsigned char* from, bool present) {
  const int bytes = present ? 16 : 0;
  if constexpr (kPast) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  }
}

__device__ __forceinline__ void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// A strip of the output.
struct Place {
  bool present;
  std::uint32_t n;
  int oy, ox;
};

template <class S>
__device__ __forceinline__ Place locate(const Arguments& a, std::uint32_t strip) {
  std::uint32_t column;
  std::uint32_t row;
  Place place;
  place.present = strip < a.strips;
  place.n = a.strips_y.divide(a.strips_x.divide(strip, column), row);
  place.oy = static_cast<int>(row) * S::kRows;
  place.ox = static_cast<int>(column) * kColumns;
  return place;
}

/// Starts copying a pair's patches. Neighbouring lanes copy neighbouring chunks; of 24 channels a lane copies all
/// three, as finding the place of each would take longer.
template <class S>
__device__ __forceinline__ void copy_patches(const Arguments& a, std::uint32_t pair, const unsigned char* x,
                                             std::uint32_t patches) {
  constexpr int kChunks = S::kCIn == 24 ? 3 : 1;
  constexpr int kPixelLanes = S::kPixelChunks / kChunks;
  const int lane = static_cast<int>(inverted_strip::lane());
#pragma unroll
  for (int first = 0; first < 2 * S::kPatchW * kPixelLanes; first += 32) {
    const int pixel = (first + lane) / kPixelLanes;
    const int half = pixel / S::kPatchW;
    const int column = pixel % S::kPatchW;
    const int chunk = lane % kPixelLanes;
    const Place place = locate<S>(a, 2 * pair + static_cast<unsigned>(half));
    const int y0 = place.oy * S::kStride - a.pad_top;
    const int x0 = place.ox * S::kStride - a.pad_left + column;
    const bool inside = place.present && static_cast<unsigned>(x0) < static_cast<unsigned>(a.w);
    const unsigned char* from =
        x + static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.h * a.w) * S::kPixelBytes;
    from += (y0 * a.w + x0) * S::kPixelBytes + chunk * 16;
    const std::uint32_t to =
        patches + static_cast<std::uint32_t>(half * S::kStripBytes + column % S::kClasses * 8 * S::kPixelBytes +
                                             S::chunk_offset(column / S::kClasses, chunk));
#pragma unroll
    for (int row = 0; row < S::kPatchH; ++row, from += a.w * S::kPixelBytes) {
      const bool present = inside && static_cast<unsigned>(y0 + row) < static_cast<unsigned>(a.h);
      settle(from);
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        copy_chunk<kChunks == 1>(to + static_cast<std::uint32_t>(row * S::kRowBytes + i * 16), from + i * 16, present);
      }
    }
  }
}

/// Upper bounds of a lane's hidden pixels: zero outside the picture, where x is zeros.
template <class S>
struct Bounds {
  std::uint32_t columns[S::kClasses][2];  ///< of each strip of the pair
  std::uint32_t rows[2];                  ///< a bit for each row in the picture

  __device__ __forceinline__ void set(const Arguments& a, const Place& place, int half) {
    const int y0 = place.oy * S::kStride - a.pad_top;
    const int x0 = place.ox * S::kStride - a.pad_left + static_cast<int>(lane() / 4) * S::kClasses;
#pragma unroll
    for (int c = 0; c < S::kClasses; ++c) {
      columns[c][half] =
          static_cast<unsigned>(x0 + c) < static_cast<unsigned>(a.w) ? inverted_small::bits(a.expand_hi) : 0;
    }
    const int above = max(-y0, 0);
    const int below = min(max(a.h - y0, 0), S::kPatchH);
    rows[half] = ((1U << below) - 1U) & (~0U << above);
  }

  /// Has the compiler forget what it has made of them: all of() would be too many registers.
  __device__ __forceinline__ void settle() {
    inverted_strip::settle(rows[0]);
    inverted_strip::settle(rows[1]);
  }

  __device__ __forceinline__ bool all_rows() const { return (rows[0] & rows[1]) == (1U << S::kPatchH) - 1U; }

  template <bool kAllRows>
  __device__ __forceinline__ std::uint32_t of(int row, int c, int half) const {
    return kAllRows || (rows[half] >> row & 1U) != 0 ? columns[c][half] : 0;
  }
};

}  // namespace mobicuda::kernels::inverted_strip
