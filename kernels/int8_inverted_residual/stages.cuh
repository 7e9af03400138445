// The stages of an inverted residual block in int8. kernel.cuh has their order.
#pragma once

#include "kernels/int8_inverted_residual/shape.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/rounded.cuh"

namespace mobicuda::kernels::int8_block {

using namespace ptx::as_int;

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int row_of_lane() { return lane() / 4; }
__device__ __forceinline__ int quarter() { return lane() % 4; }

/// A tile of the output, and what of its patch of the input lies inside the image.
struct Place {
  int n, oy, ox;
  int top, left;       ///< in the image
  int rows, columns;   ///< none less than 0
  int lead_y, lead_x;  ///< in the patch

  __device__ __forceinline__ int pixels() const { return rows * columns; }
};

template <class S>
__device__ __forceinline__ Place locate(const Arguments& a, std::uint32_t tile) {
  std::uint32_t row;
  std::uint32_t column;
  Place place{};
  place.n = static_cast<int>(a.tiles_y.divide(a.tiles_x.divide(tile, column), row));
  place.oy = static_cast<int>(row) * S::kTileH;
  place.ox = static_cast<int>(column) * S::kTileW;
  const int iy = place.oy * S::kStride - a.pad_top;
  const int ix = place.ox * S::kStride - a.pad_left;
  place.top = max(iy, 0);
  place.left = max(ix, 0);
  place.rows = max(min(iy + S::kPatchH, a.h) - place.top, 0);
  place.columns = max(min(ix + S::kPatchW, a.w) - place.left, 0);
  place.lead_y = place.top - iy;
  place.lead_x = place.left - ix;
  return place;
}

/// Begins to copy the weights of a chunk of hidden channels.
template <class S>
__device__ __forceinline__ void copy_stage(const unsigned char* packed, int chunk, unsigned char* shared) {
  constexpr int kBytes = S::kSizes.stage_bytes;
  const unsigned char* const from = packed + S::kSizes.head_bytes + chunk * kBytes;
  const std::uint32_t to = ptx::shared_address(shared + S::kStagesAt + chunk % kStages * kBytes);
  for (int i = thread() * 16; i < kBytes; i += S::kThreads * 16) {
    ptx::copy_async_cg(to + static_cast<std::uint32_t>(i), from + i);
  }
}

template <class S>
__device__ __forceinline__ unsigned char* hidden_of(unsigned char* shared, int chunk, int part) {
  return shared + S::kHiddenAt + (chunk % 2 * S::kParts + part) * S::kSizes.hidden_slice_bytes;
}

/// Hidden pixels become the padding.
template <class S>
__device__ __forceinline__ void fill_hidden(const Arguments& a, unsigned char* shared) {
  const uint4 words{a.padding, a.padding, a.padding, a.padding};
  for (int i = thread() * 16; i < S::kSizes.hidden_bytes; i += S::kThreads * 16) {
    *reinterpret_cast<uint4*>(shared + S::kHiddenAt + i) = words;
  }
}

/// Which hidden pixel each pixel of x is; those that fill the last tile of pixels are none.
template <class S>
__device__ __forceinline__ void write_slots(const Place& place, unsigned char* shared) {
  auto* const slots = reinterpret_cast<std::uint16_t*>(shared + S::kSlotsAt);
  for (int row = warp(); row < place.rows; row += S::kWarps) {
    for (int column = lane(); column < place.columns; column += 32) {
      slots[row * place.columns + column] =
          static_cast<std::uint16_t>((place.lead_y + row) * S::kRowPitch + place.lead_x + column);
    }
  }
  const int pixels = place.pixels();
  if (thread() < (kTile - pixels % kTile) % kTile) slots[pixels + thread()] = static_cast<std::uint16_t>(kNoSlot);
}

/// Stores 8 neighbouring channels of a hidden pixel. `plane`: of these channels.
template <class S>
__device__ __forceinline__ void store_hidden(unsigned char* plane, int slot, uint2 bytes) {
  *reinterpret_cast<uint2*>(plane + slot * kGroup) = bytes;
  if constexpr (S::kStride == 1) *reinterpret_cast<uint2*>(plane + S::kSizes.shifted + slot * kGroup) = bytes;
}

/// Begins to copy the pixels of x inside the image, side by side.
template <class S>
__device__ __forceinline__ void copy_patch(const Arguments& a, const Place& place, const unsigned char* x,
                                           unsigned char* shared) {
  constexpr int kPieces = S::kInPitch / 16;
  for (int row = warp(); row < place.rows; row += S::kWarps) {
    const std::size_t pixel = (static_cast<std::size_t>(place.n) * a.h + place.top + row) * a.w + place.left;
    const unsigned char* const from = x + pixel * S::kInPitch;
    for (int i = lane(); i < place.columns * kPieces; i += 32) {
      unsigned char* const to = shared + (row * place.columns + i / kPieces) * S::kSizes.x_pitch + i % kPieces * 16;
      ptx::copy_async_cg(ptx::shared_address(to), from + i * 16);
    }
  }
}

inline constexpr float kBinade = 8388608.0F;
inline constexpr float kLeast = std::numeric_limits<float>::denorm_min();

/// From a sum of a hidden value, its bias included, to what stored() takes. README.md, "From a sum to a byte".
template <Rounding kHow>
__device__ __forceinline__ std::uint32_t rounded(std::int32_t sum, float scale, float shift) {
  if constexpr (kHow == Rounding::Any) {
    constexpr float kMost = 1024.0F;  // any that all ranges lie within
    const float value = ptx::multiply_rounded(ptx::float_of(sum), scale);
    return __float_as_uint(ptx::add_rounded(fminf(fmaxf(value, -kMost), kMost), kRoundToWhole));
  } else {
    const float value =
        ptx::multiply_add_rounded(__uint_as_float(static_cast<std::uint32_t>(sum)), scale, shift);  // sum * scale
    return __float_as_uint(kHow == Rounding::Bytes ? ptx::multiply_rounded(value, kLeast)
                                                   : ptx::add_rounded(value, kRoundToWhole));
  }
}

/// Four rounded() values as they are stored.
template <Rounding kHow>
__device__ __forceinline__ std::uint32_t stored(const Unsigned& to, std::uint32_t first, std::uint32_t second,
                                                std::uint32_t third, std::uint32_t fourth) {
  if constexpr (kHow == Rounding::Bytes) return ptx::clipped_bytes(first, second, third, fourth);
  constexpr unsigned kLowerHalves = 0x5410;
  constexpr unsigned kBytes = 0x6420;
  return __byte_perm(ptx::add_clipped_pairs(__byte_perm(first, second, kLowerHalves), to.add, to.most),
                     ptx::add_clipped_pairs(__byte_perm(third, fourth, kLowerHalves), to.add, to.most), kBytes);
}

/// Of a lane's 8 hidden channels, two of a tile: what sums begin at, and arguments of rounded(). From SliceLayout's
/// ToBytes.
struct Scales {
  std::int32_t begin[4][4];
  float scale[8];
  float shift[8];

  __device__ __forceinline__ explicit Scales(const unsigned char* from) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto words = *reinterpret_cast<const int4*>(from + (i * 4 + quarter()) * 16);
      begin[i][0] = words.x;
      begin[i][1] = words.y;
      begin[i][2] = words.z;
      begin[i][3] = words.w;
    }
    load(scale, from + kSlice * 8);
    load(shift, from + kSlice * 12);
  }

 private:
  __device__ __forceinline__ static void load(float (&to)[8], const unsigned char* from) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto floats = *reinterpret_cast<const float4*>(from + quarter() * 32 + i * 16);
      to[4 * i] = floats.x;
      to[4 * i + 1] = floats.y;
      to[4 * i + 2] = floats.z;
      to[4 * i + 3] = floats.w;
    }
  }
};

__device__ __forceinline__ void copy(std::int32_t (&to)[4], const std::int32_t (&from)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = from[i];
}

/// hidden = expand x, for the warp's share of the pixels and its slice of the chunk.
template <class S, Rounding kHow>
__device__ __forceinline__ void expand(const Arguments& a, int pixels, const unsigned char* weights, int chunk,
                                       unsigned char* shared) {
  constexpr int kMostKept = 2;  // steps of weights in registers
  constexpr bool kKept = S::kStepsK <= kMostKept;
  const int part = warp() % S::kParts;
  const unsigned char* const slice = weights + part * S::kLayout.bytes;
  const Scales scales(slice + S::kLayout.of_expand);
  const auto weights_at = [&](int step, int pair) {
    return *reinterpret_cast<const uint4*>(slice + ((step * 2 + pair) * 32 + lane()) * 16);
  };
  uint4 kept[kKept ? S::kStepsK : 1][2];
  if constexpr (kKept) {
#pragma unroll
    for (int step = 0; step < S::kStepsK; ++step) {
      kept[step][0] = weights_at(step, 0);
      kept[step][1] = weights_at(step, 1);
    }
  }
  const auto* const slots = reinterpret_cast<const std::uint16_t*>(shared + S::kSlotsAt) + row_of_lane();
  unsigned char* const plane = hidden_of<S>(shared, chunk, part) + quarter() * S::kPlaneBytes;
  const std::uint32_t x = ptx::shared_address(shared + lane() % 16 * S::kSizes.x_pitch + lane() / 16 * 16);
#pragma unroll 1
  for (int first = warp() / S::kParts * kTile; first < pixels; first += S::kPixelWarps * kTile) {
    std::int32_t sums[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) copy(sums[i], scales.begin[i]);
#pragma unroll
    for (int step = 0; step < S::kStepsK; ++step) {
      std::uint32_t pixel[4];
      ptx::ldmatrix_x4(pixel, x + static_cast<std::uint32_t>(first * S::kSizes.x_pitch + step * kSlice));
      const uint4 low = kKept ? kept[kKept ? step : 0][0] : weights_at(step, 0);
      const uint4 high = kKept ? kept[kKept ? step : 0][1] : weights_at(step, 1);
      ptx::mma_s8_16x8x32(sums[0], pixel, low.x, low.y);
      ptx::mma_s8_16x8x32(sums[1], pixel, low.z, low.w);
      ptx::mma_s8_16x8x32(sums[2], pixel, high.x, high.y);
      ptx::mma_s8_16x8x32(sums[3], pixel, high.z, high.w);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[i] = rounded<kHow>(sums[i / 2][half * 2 + i % 2], scales.scale[i], scales.shift[i]);
      }
      const int slot = slots[first + half * 8];
      const uint2 bytes{stored<kHow>(a.hidden, v[0], v[1], v[2], v[3]), stored<kHow>(a.hidden, v[4], v[5], v[6], v[7])};
      if (slot != kNoSlot) store_hidden<S>(plane, slot, bytes);
    }
  }
}

/// Depthwise and project of the warp's output pixels, over its slice of each chunk.
template <class S>
class Project {
 public:
  __device__ __forceinline__ Project() {
#pragma unroll
    for (int i = 0; i < S::kMyOutTiles; ++i) {
      const int row = min(row_of(first_pixel(i) + lane() % kTile), S::kTileH - 1);
      const int column = column_of(first_pixel(i) + lane() % kTile);
      // What has no place in the tile meets what a neighbour does: ldmatrix reads that at once.
      const int slot = (row * S::kRowPitch + (column < S::kTileW ? column : column / 8 * 8)) * S::kStride;
      from_[i] = slot * kGroup + lane() / kTile * 16 + (slot % 2 != 0 ? S::kSizes.shifted : 0);
#pragma unroll
      for (int j = 0; j < S::kGroups * 4; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums_[i][j][k] = 0;
      }
    }
    // A column of the diagonal: the channel's byte in its place of the word that has it.
    const int channel = row_of_lane();
    const bool mine = channel / 4 == quarter() % 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned zeros = 0x4444U;
      const unsigned shift = static_cast<unsigned>(channel % 4) * 4;
      const auto tap = static_cast<unsigned>(2 * i + quarter() / 2);
      diagonal_[i] = mine ? (zeros & ~(0xFU << shift)) | tap << shift : zeros;
    }
  }

  template <Rounding kHow>
  __device__ __forceinline__ void run(const Arguments& a, const unsigned char* weights, int chunk,
                                      unsigned char* shared) {
    const int part = warp() % S::kParts;
    const unsigned char* const slice = weights + part * S::kLayout.bytes;
    const std::uint32_t hidden = ptx::shared_address(hidden_of<S>(shared, chunk, part));
    std::uint32_t filtered[S::kMyOutTiles][4];
    {
      const Scales scales(slice + S::kLayout.of_depthwise);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {  // of groups of channels
        std::uint32_t taps[2][3][2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const auto words = *reinterpret_cast<const uint4*>(slice + S::kLayout.taps +
                                                             ((pair * 2 + i) * kGroup + row_of_lane()) * kTapsPitch);
          const std::uint32_t rows[3] = {words.x, words.y, words.z};
#pragma unroll
          for (int row = 0; row < 3; ++row) {
            taps[i][row][0] = __byte_perm(rows[row], 0, diagonal_[0]);
            taps[i][row][1] = __byte_perm(rows[row], 0, diagonal_[1]);
          }
        }
#pragma unroll
        for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
          std::uint32_t v[2][4];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int group = pair * 2 + i;
            std::int32_t sums[4];
            copy(sums, scales.begin[group]);
#pragma unroll
            for (int row = 0; row < 3; ++row) {  // of the window; k is four pixels of 8 channels
              std::uint32_t pixels[4];
              ptx::ldmatrix_x4(pixels, hidden + static_cast<std::uint32_t>(from_[tile] + group * S::kPlaneBytes +
                                                                           row * S::kRowPitch * kGroup));
              ptx::mma_u8s8_16x8x32(sums, pixels, taps[i][row][0], taps[i][row][1]);
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              v[i][k] = rounded<kHow>(sums[k], scales.scale[group * 2 + k % 2], scales.shift[group * 2 + k % 2]);
            }
          }
          filtered[tile][pair * 2] = stored<kHow>(a.filtered, v[0][0], v[0][1], v[1][0], v[1][1]);
          filtered[tile][pair * 2 + 1] = stored<kHow>(a.filtered, v[0][2], v[0][3], v[1][2], v[1][3]);
        }
      }
    }
#pragma unroll
    for (int pair = 0; pair < S::kGroups * 2; ++pair) {
      const auto words = *reinterpret_cast<const uint4*>(slice + S::kLayout.project + (pair * 32 + lane()) * 16);
#pragma unroll
      for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
        ptx::mma_u8s8_16x8x32(sums_[tile][pair * 2], filtered[tile], words.x, words.y);
        ptx::mma_u8s8_16x8x32(sums_[tile][pair * 2 + 1], filtered[tile], words.z, words.w);
      }
    }
  }

  /// Adds what the warps of other parts have, and stores the bytes.
  __device__ __forceinline__ void finish(const Arguments& a, const Place& place, const unsigned char* packed,
                                         unsigned char* shared, unsigned char* y) {
    const int part = warp() % S::kParts;
    if constexpr (S::kParts > 1) {
      __syncthreads();  // the sums take the place of what others may still read
      for_each_group([&](int tile, int group) {
        const int owner = group % S::kParts;
        if (owner == part) return;
        unsigned char* const to = sums_at(shared, tile, group, part < owner ? part : part - 1);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::int32_t(&sums)[4] = sums_[tile][group * 4 + j];
          *reinterpret_cast<int4*>(to + j * 512) = int4{sums[0], sums[1], sums[2], sums[3]};
        }
      });
      __syncthreads();
    }
    for_each_group([&](int tile, int group) {
      if constexpr (S::kParts > 1) {
        if (group % S::kParts != part) return;
#pragma unroll
        for (int other = 0; other < S::kParts - 1; ++other) {
          const unsigned char* const from = sums_at(shared, tile, group, other);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int4 sums = *reinterpret_cast<const int4*>(from + j * 512);
            sums_[tile][group * 4 + j][0] = add_wrapping(sums_[tile][group * 4 + j][0], sums.x);
            sums_[tile][group * 4 + j][1] = add_wrapping(sums_[tile][group * 4 + j][1], sums.y);
            sums_[tile][group * 4 + j][2] = add_wrapping(sums_[tile][group * 4 + j][2], sums.z);
            sums_[tile][group * 4 + j][3] = add_wrapping(sums_[tile][group * 4 + j][3], sums.w);
          }
        }
      }
      store(a, place, tile, group, packed, shared, y);
    });
  }

 private:
  /// Of the tile of outputs, the first pixel of an mma's rows.
  __device__ __forceinline__ static int first_pixel(int tile) {
    return (warp() / S::kParts + tile * S::kPixelWarps) * kTile;
  }

  /// Where that is in the tile, whose rows begin at multiples of 8: so the 8 rows of each of ldmatrix's matrices are
  /// neighbours in one row of hidden pixels, and all banks have one.
  __device__ __forceinline__ static int row_of(int pixel) { return pixel / S::kColumns; }
  __device__ __forceinline__ static int column_of(int pixel) { return pixel % S::kColumns; }

  __device__ __forceinline__ static unsigned char* sums_at(unsigned char* shared, int tile, int group, int other) {
    const int at = (warp() / S::kParts * S::kMyOutTiles + tile) * S::kGroups + group;
    return shared + S::kStagesAt + (at * (S::kParts - 1) + other) * (kTile * kSlice * 4) + lane() * 16;
  }

  template <class Body>
  __device__ __forceinline__ static void for_each_group(const Body& body) {
#pragma unroll
    for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
#pragma unroll
      for (int group = 0; group < S::kGroups; ++group) body(tile, group);
    }
  }

  __device__ __forceinline__ void store(const Arguments& a, const Place& place, int tile, int group,
                                        const unsigned char* packed, const unsigned char* shared,
                                        unsigned char* y) const {
    const unsigned char* const head = packed + kFlagBytes + (group * 4 + quarter()) * 32;
    uint4 bias[2];
    float4 scale[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      bias[i] = ptx::load_global_nc<uint4>(head + i * 16);
      scale[i] = ptx::load_global_nc<float4>(head + S::kGroups * 128 + i * 16);
    }
    const std::int32_t biases[8] = {static_cast<std::int32_t>(bias[0].x), static_cast<std::int32_t>(bias[0].y),
                                    static_cast<std::int32_t>(bias[0].z), static_cast<std::int32_t>(bias[0].w),
                                    static_cast<std::int32_t>(bias[1].x), static_cast<std::int32_t>(bias[1].y),
                                    static_cast<std::int32_t>(bias[1].z), static_cast<std::int32_t>(bias[1].w)};
    const float scales[8] = {scale[0].x, scale[0].y, scale[0].z, scale[0].w,
                             scale[1].x, scale[1].y, scale[1].z, scale[1].w};
    const int channel = group * kSlice + quarter() * 8;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pixel = first_pixel(tile) + half * 8 + row_of_lane();
      const int oy = place.oy + row_of(pixel);
      const int ox = place.ox + column_of(pixel);
      const bool present = row_of(pixel) < S::kTileH && column_of(pixel) < S::kTileW && oy < a.out_h && ox < a.out_w &&
                           channel < S::kOutPitch;
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const std::int32_t sum = add_wrapping(sums_[tile][group * 4 + i / 2][half * 2 + i % 2], biases[i]);
        v[i] = round_clipped(a.output, ptx::multiply_rounded(ptx::float_of(sum), scales[i]));
      }
      std::uint32_t words[2];
      if (S::kMayAdd && a.residual) {
        const int at = present ? (oy - place.top) * place.columns + ox - place.left : 0;
        const uint2 x = *reinterpret_cast<const uint2*>(shared + at * S::kSizes.x_pitch + channel);
        words[0] = added(a.sum, v, x.x);
        words[1] = added(a.sum, v + 4, x.y);
      } else {
        words[0] = pack_bytes(a.output, v[0], v[1], v[2], v[3]);
        words[1] = pack_bytes(a.output, v[4], v[5], v[6], v[7]);
      }
      const std::size_t at = (static_cast<std::size_t>(place.n) * a.out_h + oy) * a.out_w + ox;
      if (present) ptx::store_global<2>(y + at * S::kOutPitch + channel, words);
    }
  }

  /// Four bytes of round_clipped() values plus bytes of x.
  __device__ __forceinline__ static std::uint32_t added(const AddBytes& add, const float* v, std::uint32_t x) {
    const std::uint32_t biased = x ^ kSignsOfBytes;
    const auto whole = [&](int i) { return ptx::add_rounded(v[i], -kRoundToWhole); };
    return pack_bytes(add.to, add_wholes(add, whole(0), whole_of_byte<0>(biased, add.b_offset)),
                      add_wholes(add, whole(1), whole_of_byte<1>(biased, add.b_offset)),
                      add_wholes(add, whole(2), whole_of_byte<2>(biased, add.b_offset)),
                      add_wholes(add, whole(3), whole_of_byte<3>(biased, add.b_offset)));
  }

  std::int32_t sums_[S::kMyOutTiles][S::kGroups * 4][4];
  int from_[S::kMyOutTiles];  ///< the lane's rows of ldmatrix, within a plane of hidden pixels
  unsigned diagonal_[2];      ///< of a __byte_perm
};

}  // namespace mobicuda::kernels::int8_block
