// What a warp of the strip inverted residual kernel reads of x: two strips' patches, copied to shared memory ahead of
// the arithmetic. sm_80 and newer.
#pragma once

#include "kernels/inverted_residual/strip/shape.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_strip {

// Read anew every time: what the compiler would make of them ahead of the loops would be spilled in them.
using ptx::reread_lane;
using ptx::reread_warp;

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

/// Starts copying a pair's patches. Neighbouring lanes copy neighbouring chunks, as many of a pixel as are a power of
/// two; where these are not all, a lane copies several, as finding the place of each would take longer.
template <class S>
__device__ __forceinline__ void copy_patches(const Arguments& a, std::uint32_t pair, const unsigned char* x,
                                             std::uint32_t patches) {
  constexpr int kPixelLanes = S::kPixelLanes;
  constexpr int kChunks = S::kPixelChunks / kPixelLanes;
  const int lane = static_cast<int>(reread_lane());
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
        patches + static_cast<std::uint32_t>(half * S::kStripBytes + column % S::kClasses * S::kClassBytes +
                                             S::chunk_offset(column / S::kClasses, chunk));
#pragma unroll
    for (int row = 0; row < S::kPatchH; ++row, from += a.w * S::kPixelBytes) {
      const bool present = inside && static_cast<unsigned>(y0 + row) < static_cast<unsigned>(a.h);
      ptx::pin(from);
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const std::uint32_t chunk_to = to + static_cast<std::uint32_t>(row * S::kRowBytes + i * kPixelLanes * 16);
        if constexpr (kChunks == 1) {
          ptx::copy_async_cg_or_zero(chunk_to, from + i * kPixelLanes * 16, present);
        } else {
          ptx::copy_async_ca_or_zero<16>(chunk_to, from + i * kPixelLanes * 16, present);
        }
      }
    }
  }
}

/// Upper bounds of a lane's hidden pixels: zero outside the image, where x is zeros.
template <class S>
struct Bounds {
  std::uint32_t columns[S::kClasses][2];  ///< of each strip of the pair
  std::uint32_t rows[2];                  ///< a bit for each row in the image

  __device__ __forceinline__ void set(const Arguments& a, const Place& place, int half) {
    const int y0 = place.oy * S::kStride - a.pad_top;
    const int x0 = place.ox * S::kStride - a.pad_left + static_cast<int>(reread_lane() / 4) * S::kClasses;
#pragma unroll
    for (int c = 0; c < S::kClasses; ++c) {
      columns[c][half] = static_cast<unsigned>(x0 + c) < static_cast<unsigned>(a.w) ? ptx::bits(a.expand_hi) : 0;
    }
    const int above = max(-y0, 0);
    const int below = min(max(a.h - y0, 0), S::kPatchH);
    rows[half] = ((1U << below) - 1U) & (~0U << above);
  }

  /// Has the compiler forget what it has made of them: all of() would be too many registers.
  __device__ __forceinline__ void pin() {
    ptx::pin(rows[0]);
    ptx::pin(rows[1]);
  }

  __device__ __forceinline__ bool all_rows() const { return (rows[0] & rows[1]) == (1U << S::kPatchH) - 1U; }

  template <bool kAllRows>
  __device__ __forceinline__ std::uint32_t of(int row, int c, int half) const {
    return kAllRows || (rows[half] >> row & 1U) != 0 ? columns[c][half] : 0;
  }
};

}  // namespace mobicuda::kernels::inverted_strip
