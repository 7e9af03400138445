#pragma once

#include <cuda_pipeline.h>

#include "kernels/common/conv_vector.cuh"
#include "kernels/conv2d/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::convolution {

// A network's first layer: 3x3, stride 1 or 2, few input channels in any layout. Block -> a tile of output pixels, all
// channels; its input and all weights are staged in shared memory as float, input channels apart: at most 28 KB.
// Thread -> kPixels outputs of a row x kChannels channels, channels fastest, so that the input of a warp is read from
// shared memory mostly by broadcast and pixels are stored whole.

template <int kPixels_, int kChannels_, int kTileRows_, int kTileColumns_>
struct Stem {
  static constexpr int kPixels = kPixels_;
  static constexpr int kChannels = kChannels_;
  static constexpr int kTileRows = kTileRows_;
  static constexpr int kTileColumns = kTileColumns_;
  static constexpr int kRowGroups = kTileColumns / kPixels;  ///< pixel groups of a tile's row
  static constexpr int kGroups = kRowGroups * kTileRows;
};

inline constexpr int kStemMaxIn = 4;
inline constexpr int kStemMaxOut = 64;

template <class S, int kStride>
struct StemShape {
  static constexpr int kInRows = (S::kTileRows - 1) * kStride + 3;
  static constexpr int kInColumns = (S::kTileColumns - 1) * kStride + 3;
  static constexpr int kPitch = round_up(kInColumns, 2);                       // even, for loads of two columns
  static constexpr int kInputs = round_up((S::kPixels - 1) * kStride + 3, 2);  // that a thread reads of a row
  static constexpr int kPlane = kInRows * kPitch;

  static constexpr std::size_t shared_bytes(int c_in) {
    return sizeof(float) * static_cast<std::size_t>(c_in) * (kPlane + 9 * kStemMaxOut);
  }
};

/// Packed weights (ky, kx, ci, co) to float in (ci, ky, kx, kStemMaxOut).
template <class T>
__device__ __forceinline__ void stage_weights(const Arguments& a, const T* weight, float* staged) {
  constexpr int kStep = 4;
  using Vector = Words<kStep* static_cast<int>(sizeof(T))>;
  const int steps = 9 * a.c_in * a.c_out / kStep;
  for (int i = static_cast<int>(threadIdx.x); i < steps; i += static_cast<int>(blockDim.x)) {
    const int row = i * kStep / a.c_out;
    const int co = i * kStep - row * a.c_out;
    const int tap = row / a.c_in;
    const int ci = row - tap * a.c_in;
    const auto words = ptx::load_global<Vector>(weight + i * kStep);
    float values[kStep];
    unpack<T>(words, values);
    *reinterpret_cast<float4*>(staged + (ci * 9 + tap) * kStemMaxOut + co) =
        make_float4(values[0], values[1], values[2], values[3]);
  }
}

/// Input window of the block's tile, zero outside the image, to (ci, rows, kPitch).
template <class Shape, class X>
__device__ __forceinline__ void stage_input(const Arguments& a, const X* picture, int iy0, int ix0, float* staged) {
  constexpr int kPixels = Shape::kInRows * Shape::kInColumns;
  for (int i = static_cast<int>(threadIdx.x); i < kPixels; i += static_cast<int>(blockDim.x)) {
    const int row = i / Shape::kInColumns;
    const int column = i - row * Shape::kInColumns;
    const int iy = iy0 + row;
    const int ix = ix0 + column;
    const bool inside = static_cast<unsigned>(iy) < static_cast<unsigned>(a.h) &&
                        static_cast<unsigned>(ix) < static_cast<unsigned>(a.w);
    const X* source = inside ? picture + (iy * a.w + ix) * a.x_pixel : picture;
    float* target = staged + row * Shape::kPitch + column;
#pragma unroll
    for (int ci = 0; ci < kStemMaxIn; ++ci) {
      if (ci >= a.c_in) break;
      if constexpr (sizeof(X) == sizeof(float)) {
        __pipeline_memcpy_async(target, source, sizeof(float), inside ? 0 : sizeof(float));
      } else if constexpr (std::is_same_v<X, std::uint8_t>) {
        *target = inside ? fmaf(static_cast<float>(*source), a.scale[ci], a.shift[ci]) : 0.0F;
      } else {
        *target = inside ? to_float(*source) : 0.0F;
      }
      source += a.x_channel;
      target += Shape::kPlane;
    }
  }
  if constexpr (sizeof(X) == sizeof(float)) {
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }
}

template <class T, int kChannels>
__device__ __forceinline__ void store_channels(const float (&values)[kChannels], T* target) {
  constexpr int kAll = static_cast<int>(sizeof(T)) * kChannels;
  constexpr int kBytes = kAll < 16 ? kAll : 16;
  constexpr int kStep = kBytes / static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < kChannels; i += kStep) {
    float part[kStep];
#pragma unroll
    for (int j = 0; j < kStep; ++j) part[j] = values[i + j];
    *reinterpret_cast<Words<kBytes>*>(target + i) = pack<T, Words<kBytes>>(part);
  }
}

/// kClip: the activation is Clip. The code of all the others, once for each pixel, would lie between the stores.
template <class X, class T, class S, int kStride, bool kClip>
__global__ void __launch_bounds__(S::kGroups* kStemMaxOut / S::kChannels)
    stem_kernel(const Arguments a, const X* x, const T* weight, const float* bias, T* y) {
  using Shape = StemShape<S, kStride>;
  constexpr int kInputs = Shape::kInputs;
  MOBICUDA_DYNAMIC_SHARED(float, 16, shared);
  float* const weights = shared;                            // (ci, ky, kx, kStemMaxOut)
  float* const window = shared + a.c_in * 9 * kStemMaxOut;  // (ci, rows, kPitch)

  const int vectors = a.c_out / S::kChannels;
  const int group = static_cast<int>(threadIdx.x) / vectors;
  const int co = (static_cast<int>(threadIdx.x) - group * vectors) * S::kChannels;
  const int tile_y = group / S::kRowGroups;
  const int tile_x = (group - tile_y * S::kRowGroups) * S::kPixels;
  const Item item = decode(a.grid, blockIdx.x);
  const int oy0 = static_cast<int>(item.tile_y) * S::kTileRows;
  const int ox0 = static_cast<int>(item.tile_x) * S::kTileColumns;
  const X* const picture = x + item.n * a.x_picture();
  stage_weights(a, weight, weights);
  float offset[S::kChannels] = {};
  if (bias != nullptr) load_constants<float>(bias + co, offset);
  wait_for_predecessor();

  stage_input<Shape>(a, picture, oy0 * kStride - a.pad_top, ox0 * kStride - a.pad_left, window);
  float sums[S::kPixels][S::kChannels];
#pragma unroll
  for (int p = 0; p < S::kPixels; ++p) {
#pragma unroll
    for (int c = 0; c < S::kChannels; ++c) sums[p][c] = offset[c];
  }
  __syncthreads();

  int ci = 0;
#pragma unroll 1
  do {
    const float* const rows = window + ci * Shape::kPlane + tile_y * kStride * Shape::kPitch + tile_x * kStride;
    const float* const factors = weights + ci * 9 * kStemMaxOut + co;
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
      float values[kInputs];
#pragma unroll
      for (int j = 0; j < kInputs; j += 2) {
        const float2 pair = *reinterpret_cast<const float2*>(rows + ky * Shape::kPitch + j);
        values[j] = pair.x;
        values[j + 1] = pair.y;
      }
#pragma unroll
      for (int kx = 0; kx < 3; ++kx) {
        float factor[S::kChannels];
#pragma unroll
        for (int c = 0; c < S::kChannels; c += 4) {
          *reinterpret_cast<float4*>(factor + c) =
              *reinterpret_cast<const float4*>(factors + (ky * 3 + kx) * kStemMaxOut + c);
        }
#pragma unroll
        for (int p = 0; p < S::kPixels; ++p) {
#pragma unroll
          for (int c = 0; c < S::kChannels; ++c) {
            sums[p][c] = fmaf(values[p * kStride + kx], factor[c], sums[p][c]);
          }
        }
      }
    }
  } while (++ci < a.c_in);

  const int oy = oy0 + tile_y;
  if (oy >= a.out_h) return;
  const std::size_t out_row = (static_cast<std::size_t>(item.n) * a.out_h + oy) * a.out_w;
  const std::size_t first = (out_row + ox0 + tile_x) * a.c_out + co;
#pragma unroll
  for (int p = 0; p < S::kPixels; ++p) {
    if (ox0 + tile_x + p >= a.out_w) break;
    float values[S::kChannels];
#pragma unroll
    for (int c = 0; c < S::kChannels; ++c) values[c] = sums[p][c];
    if constexpr (kClip) {
#pragma unroll
      for (float& value : values) value = apply(Clip{a.activation.lo, a.activation.hi}, value);
    } else {
      apply(a.activation, values);
    }
    store_channels(values, y + first + p * a.c_out);
  }
}

}  // namespace mobicuda::kernels::convolution
