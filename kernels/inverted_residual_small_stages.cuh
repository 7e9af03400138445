// Shapes and register-level stages of the small inverted residual kernel. sm_80 and newer.
//
// A warp owns a slice of the hidden channels, in groups of 8, and with warps_m > 1 shares it with other warps that own
// other pixels. All three convolutions are mma.sync; the hidden pixels of a slice pass through shared memory once.
#pragma once

#include "gemm_mma.cuh"
#include "inverted_residual_small.cuh"

namespace mobicuda::kernels::inverted_small {

__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % 32); }
__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / 32); }

__device__ __forceinline__ __half2 apply([[maybe_unused]] HalfClip clip, __half2 x) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __hmin2_nan(__hmax2_nan(x, clip.lo), clip.hi);
#else
  return x;
#endif
}

__device__ __forceinline__ std::uint32_t bits(__half2 x) { return *reinterpret_cast<std::uint32_t*>(&x); }

// Loads from global memory are volatile so that they stay on their side of wait_for_predecessor().

template <int kWords>
__device__ __forceinline__ void load_words(const unsigned char* from, std::uint32_t* words) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(words[0]) : "l"(from));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from));
  } else {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(from));
  }
}

/// Has the pointer computed here, not behind a later volatile statement.
__device__ __forceinline__ void settle(const unsigned char*& pointer) { asm volatile("" : "+l"(pointer)); }

/// sum += a (16 x 8) * b (8 x 8).
__device__ __forceinline__ void multiply_add_half([[maybe_unused]] float (&sum)[4], [[maybe_unused]] std::uint32_t a0,
                                                  [[maybe_unused]] std::uint32_t a1, [[maybe_unused]] std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(b));
#endif
}

/// Four 8x8 matrices of half; lane t gives the address of row t % 8 of matrix t / 8.
__device__ __forceinline__ void load_four(std::uint32_t (&registers)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void load_two(std::uint32_t (&registers)[2], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(row)
               : "memory");
}

/// A warp's part of the weights, in registers as the instructions want them.
template <class S>
struct Weights {
  std::uint32_t expand[S::kGroups][4];
  std::uint32_t project[S::kGroups][S::kProjectWords];
  std::uint32_t taps[S::kGroups][5];  ///< of channel lane / 4: nine halves
  float bias[S::kGroups][4];          ///< of channels lane % 4 * 2 and the next: expand, then depthwise

  __device__ __forceinline__ void load(const unsigned char* packed, int slice) {
    constexpr GroupLayout kLayout = S::kLayout;
    packed += S::kCOut * 4 + slice * (S::kGroups * kLayout.bytes);
#pragma unroll
    for (int g = 0; g < S::kGroups; ++g, packed += kLayout.bytes) {
      load_words<S::kExpandWords == 2 ? 2 : 4>(packed + lane() * 16, expand[g]);
#pragma unroll
      for (int i = 0; i < S::kProjectWords; i += 4) {
        load_words<4>(packed + kLayout.project + i * 128 + lane() * 16, project[g] + i);
      }
      load_words<4>(packed + kLayout.taps + lane() / 4 * 16, taps[g]);
      load_words<1>(packed + kLayout.last_tap + lane() / 4 * 4, taps[g] + 4);
      std::uint32_t words[4];
      load_words<4>(packed + kLayout.bias + lane() % 4 * 16, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) bias[g][i] = __uint_as_float(words[i]);
    }
  }
};

/// A tile of the output.
struct Place {
  std::uint32_t n;
  int oy, ox;
};

template <class S>
__device__ __forceinline__ Place locate(const Arguments& a, std::uint32_t tile) {
  std::uint32_t column;
  std::uint32_t row;
  Place place;
  place.n = a.tiles_y.divide(a.tiles_x.divide(tile, column), row);
  place.oy = static_cast<int>(row) * S::kTileH;
  place.ox = static_cast<int>(column) * S::kTileW;
  return place;
}

/// The rows of x that a lane has in the A operands of its warp's fragments: slots lane / 4 and lane / 4 + 8 of each.
template <class S>
class Patch {
 public:
  /// Finds the pixels. Those outside the picture are read from its start, and the hidden pixels masked.
  __device__ __forceinline__ void aim(const Arguments& a, const Place& place, const unsigned char* x, int part) {
    x += static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.h * a.w) * (S::kCIn * 2);
    const int iy = place.oy * S::kStride - a.pad_top;
    const int ix = place.ox * S::kStride - a.pad_left;
    inside_ = 0;
#pragma unroll
    for (int i = 0; i < 2 * S::kMyPatchTiles; ++i) {
      const int slot = (part + i / 2 * S::kParts) * 16 + i % 2 * 8 + lane() / 4;
      const int row = slot / S::kPitch;
      const int column = S::column_of(row, slot % S::kPitch);
      const bool in_patch = row < S::kPatchH && column < S::kPatchW;
      const bool inside = in_patch && static_cast<unsigned>(iy + row) < static_cast<unsigned>(a.h) &&
                          static_cast<unsigned>(ix + column) < static_cast<unsigned>(a.w);
      const int pixel = inside ? (iy + row) * a.w + ix + column : 0;
      rows_[i] = x + pixel * (S::kCIn * 2) + lane() % 4 * (S::kCIn == 32 ? 16 : 8);
      if (inside) inside_ |= 1U << i;
    }
  }

  __device__ __forceinline__ void settle() {
#pragma unroll
    for (const unsigned char*& row : rows_) inverted_small::settle(row);
    asm volatile("" : "+r"(inside_));
  }

  __device__ __forceinline__ void load() {
#pragma unroll
    for (int i = 0; i < 2 * S::kMyPatchTiles; ++i) {
      load_words<S::kCIn == 32 ? 4 : 2>(rows_[i], words_[i]);
      if constexpr (S::kCIn == 24) load_words<1>(rows_[i] + 32 - lane() % 4 * 4, words_[i] + 2);
    }
    loaded_inside_ = inside_;
  }

  /// sum += fragment `i` times group's columns.
  __device__ __forceinline__ void multiply(float (&sum)[4], int i, const std::uint32_t (&weights)[4]) const {
    const std::uint32_t(&lower)[4] = words_[2 * i];
    const std::uint32_t(&upper)[4] = words_[2 * i + 1];
    const std::uint32_t first[4] = {lower[0], upper[0], lower[1], upper[1]};
    gemm_detail::multiply_add(sum, first, weights[0], weights[1]);
    if constexpr (S::kCIn == 24) multiply_add_half(sum, lower[2], upper[2], weights[2]);
    if constexpr (S::kCIn == 32) {
      const std::uint32_t second[4] = {lower[2], upper[2], lower[3], upper[3]};
      gemm_detail::multiply_add(sum, second, weights[2], weights[3]);
    }
  }

  /// Whether row i of the loaded ones is in the picture.
  __device__ __forceinline__ bool inside(int i) const { return (loaded_inside_ >> i & 1U) != 0; }

 private:
  const unsigned char* rows_[2 * S::kMyPatchTiles];
  std::uint32_t words_[2 * S::kMyPatchTiles][4];
  std::uint32_t inside_ = 0;
  std::uint32_t loaded_inside_ = 0;
};

/// Expands the warp's fragments of the patch to (group, slot, 8 channels); zeros outside the picture. `hidden` is the
/// slice's.
template <class S>
__device__ __forceinline__ void expand(const Arguments& a, const Patch<S>& patch, const Weights<S>& weights,
                                       unsigned char* hidden, int part) {
  hidden += (part * 16 + lane() / 4) * 16 + lane() % 4 * 4;
#pragma unroll
  for (int i = 0; i < S::kMyPatchTiles; ++i) {
    if (part + i * S::kParts >= S::kPatchTiles) break;
#pragma unroll
    for (int g = 0; g < S::kGroups; ++g) {
      float sum[4] = {weights.bias[g][0], weights.bias[g][1], weights.bias[g][0], weights.bias[g][1]};
      patch.multiply(sum, i, weights.expand[g]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const __half2 value = apply(a.expand_clip, __floats2half2_rn(sum[2 * half], sum[2 * half + 1]));
        *reinterpret_cast<std::uint32_t*>(hidden + g * S::kGroupBytes + (i * S::kParts * 16 + half * 8) * 16) =
            patch.inside(2 * i + half) ? bits(value) : 0U;
      }
    }
  }
}

/// The depthwise convolution as a product with diagonal 8x8 matrices, two taps an instruction: of the B operand a lane
/// has rows lane % 4 * 2 and the next of column lane / 4.
class Diagonal {
 public:
  __device__ __forceinline__ Diagonal() {
    const bool has = lane() / 8 == lane() % 4;
    const bool upper = lane() / 4 % 2 == 1;
    even_ = has ? (upper ? 0x1044U : 0x4410U) : 0x4444U;
    odd_ = has ? (upper ? 0x3244U : 0x4432U) : 0x4444U;
  }
  __device__ __forceinline__ std::uint32_t tap(const std::uint32_t (&taps)[5], int tap) const {
    return __byte_perm(taps[tap / 2], 0, tap % 2 == 0 ? even_ : odd_);
  }

 private:
  std::uint32_t even_;
  std::uint32_t odd_;
};

/// Depthwise convolution of 16 pixels, or of 8 in the lower half.
template <class S>
class Depthwise {
 public:
  /// `hidden` is the slice's, in the shared address space.
  __device__ __forceinline__ Depthwise(std::uint32_t hidden, int part) {
    hidden += static_cast<std::uint32_t>(part * S::kOutTileBytes);
    const int matrix = lane() / 8;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      int tap;
      int band;
      if constexpr (S::kOneBand) {
        // Rows 0..7 of one product are two taps of the pixels, rows 8..15 of another are the next two.
        tap = i < 2 ? 4 * i + matrix / 2 + matrix % 2 * 2 : 8;
        band = 0;
      } else {
        const int first = i < 3 ? i : 6;
        const int second = i < 3 ? i + 3 : 7;
        tap = i < 4 ? (matrix < 2 ? first : second) : 8;
        band = matrix % 2;
      }
      const int pixel = band * 8 + lane() % 8 < S::kPixels ? band * 8 + lane() % 8 : 0;
      const int row = pixel / S::kTileW * S::kStride + tap / 3;
      const int column = pixel % S::kTileW * S::kStride + tap % 3;
      rows_[i] = hidden + static_cast<std::uint32_t>((row * S::kPitch + S::place_of(row, column)) * 16);
      asm volatile("" : "+r"(rows_[i]));
    }
  }

  /// Group g of the warp's pixels `tile`, as half of an A operand.
  __device__ __forceinline__ void apply(const Arguments& a, const Weights<S>& weights, int g, int tile,
                                        std::uint32_t (&result)[2]) const {
    const auto offset = static_cast<std::uint32_t>(tile * S::kParts * S::kOutTileBytes + g * S::kGroupBytes);
    const std::uint32_t(&taps)[5] = weights.taps[g];
    float first[4] = {weights.bias[g][2], weights.bias[g][3], weights.bias[g][2], weights.bias[g][3]};
    float second[4] = {};
    std::uint32_t pixels[kLoads - 1][4];
    std::uint32_t last[2];
#pragma unroll
    for (int i = 0; i < kLoads - 1; ++i) load_four(pixels[i], rows_[i] + offset);
    load_two(last, rows_[kLoads - 1] + offset);
    if constexpr (S::kOneBand) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        gemm_detail::multiply_add(first, pixels[i], diagonal_.tap(taps, 4 * i), diagonal_.tap(taps, 4 * i + 1));
        gemm_detail::multiply_add(second, pixels[i], diagonal_.tap(taps, 4 * i + 2), diagonal_.tap(taps, 4 * i + 3));
      }
    } else {
      gemm_detail::multiply_add(first, pixels[0], diagonal_.tap(taps, 0), diagonal_.tap(taps, 3));
      gemm_detail::multiply_add(second, pixels[1], diagonal_.tap(taps, 1), diagonal_.tap(taps, 4));
      gemm_detail::multiply_add(first, pixels[2], diagonal_.tap(taps, 2), diagonal_.tap(taps, 5));
      gemm_detail::multiply_add(second, pixels[3], diagonal_.tap(taps, 6), diagonal_.tap(taps, 7));
    }
    multiply_add_half(first, last[0], last[1], diagonal_.tap(taps, 8));
    constexpr int kUpper = S::kOneBand ? 2 : 0;
    result[0] = bits(inverted_small::apply(
        a.depthwise_clip, __floats2half2_rn(first[0] + second[kUpper], first[1] + second[kUpper + 1])));
    result[1] = S::kOneBand ? 0U
                            : bits(inverted_small::apply(
                                  a.depthwise_clip, __floats2half2_rn(first[2] + second[2], first[3] + second[3])));
  }

 private:
  static constexpr int kLoads = S::kOneBand ? 3 : 5;

  Diagonal diagonal_;
  std::uint32_t rows_[kLoads];
};

/// Sums of the projection over the warp's slice, added up by finish().
template <class S>
__device__ __forceinline__ void filter_and_project(const Arguments& a, const Weights<S>& weights,
                                                   const Depthwise<S>& depthwise, float* partial, int part) {
#pragma unroll
  for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
    float sums[S::kCOut / 8][4] = {};
#pragma unroll
    for (int g = 0; g < S::kGroups; g += 2) {
      std::uint32_t lower[2];
      std::uint32_t upper[2];
      depthwise.apply(a, weights, g, tile, lower);
      if (g + 1 < S::kGroups) {
        depthwise.apply(a, weights, g + 1, tile, upper);
        const std::uint32_t operand[4] = {lower[0], lower[1], upper[0], upper[1]};
#pragma unroll
        for (int n = 0; n < S::kCOut / 8; ++n) {
          gemm_detail::multiply_add(sums[n], operand, weights.project[g][n], weights.project[g + 1][n]);
        }
      } else {
#pragma unroll
        for (int n = 0; n < S::kCOut / 8; ++n) {
          multiply_add_half(sums[n], lower[0], lower[1], weights.project[g][n]);
        }
      }
    }
#pragma unroll
    for (int half = 0; half < (S::kOneBand ? 1 : 2); ++half) {
      const int pixel = (part + tile * S::kParts) * 16 + half * 8 + lane() / 4;
      if (S::kPixels < 8 && pixel >= S::kPixels) break;
#pragma unroll
      for (int n = 0; n < S::kCOut / 8; ++n) {
        *reinterpret_cast<float2*>(partial + pixel * S::kPartialRow + n * 8 + lane() % 4 * 2) =
            make_float2(sums[n][2 * half], sums[n][2 * half + 1]);
      }
    }
  }
}

}  // namespace mobicuda::kernels::inverted_small
