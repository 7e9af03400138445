// The stages of an inverted residual block in int8. kernel.cuh has their order.
#pragma once

#include "kernels/int8_inverted_residual/shape.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
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

/// Begins to copy kBytes, a multiple of 16.
template <class S, int kBytes>
__device__ __forceinline__ void copy_bytes(const unsigned char* from, unsigned char* to) {
  const std::uint32_t at = ptx::shared_address(to);
#pragma unroll 1  // code that runs once takes longer to fetch than to run
  for (int i = thread() * 16; i < kBytes; i += S::kThreads * 16) {
    ptx::copy_async_cg(at + static_cast<std::uint32_t>(i), from + i);
  }
}

template <class S>
__device__ __forceinline__ unsigned char* stage_of(unsigned char* shared, int chunk) {
  return shared + S::kStagesAt + chunk % S::kStages * S::kSizes.stage_bytes;
}

/// Begins to copy the weights of a chunk of the hidden channels whose weights begin at `slices`.
template <class S>
__device__ __forceinline__ void copy_stage(const unsigned char* slices, int chunk, unsigned char* shared) {
  copy_bytes<S, S::kSizes.stage_bytes>(slices + chunk * S::kSizes.stage_bytes, stage_of<S>(shared, chunk));
}

template <class S>
__device__ __forceinline__ unsigned char* hidden_of(unsigned char* shared, int chunk, int part) {
  return shared + S::kHiddenAt + (chunk % S::kSizes.hidden_buffers * S::kParts + part) * S::kSizes.hidden_slice_bytes;
}

/// Hidden pixels become the padding.
template <class S>
__device__ __forceinline__ void fill_hidden(const Arguments& a, unsigned char* shared) {
  const uint4 words{a.padding, a.padding, a.padding, a.padding};
#pragma unroll 1
  for (int i = thread() * 16; i < S::kSizes.hidden_bytes; i += S::kThreads * 16) {
    *reinterpret_cast<uint4*>(shared + S::kHiddenAt + i) = words;
  }
}

/// Which hidden pixel each pixel of x is; those that fill the last tile of pixels are none.
template <class S>
__device__ __forceinline__ void write_slots(const Place& place, unsigned char* shared) {
  auto* const slots = reinterpret_cast<std::uint16_t*>(shared + S::kSlotsAt);
#pragma unroll 1
  for (int row = warp(); row < place.rows; row += S::kWarps) {
#pragma unroll 1
    for (int column = lane(); column < place.columns; column += 32) {
      slots[row * place.columns + column] =
          static_cast<std::uint16_t>((place.lead_y + row) * S::kRowPitch + place.lead_x + column);
    }
  }
  const int pixels = place.pixels();
  if (thread() < (kTile - pixels % kTile) % kTile) slots[pixels + thread()] = static_cast<std::uint16_t>(kNoSlot);
}

/// Stores 8 neighbouring channels of a hidden pixel, if there is one. `plane`: of these channels.
template <class S>
__device__ __forceinline__ void store_hidden(std::uint32_t plane, int slot, uint2 bytes) {
  const std::uint32_t to = plane + static_cast<std::uint32_t>(slot * kGroup);
  ptx::store_shared_if(slot != kNoSlot, to, bytes);
  if constexpr (S::kStride == 1) ptx::store_shared_if(slot != kNoSlot, to + S::kSizes.shifted, bytes);
}

/// A thread's share of the pixels of x under the tile: 16 bytes of each of some. Those inside the image lie side by
/// side.
template <class S>
class PatchCopy {
 public:
  __device__ __forceinline__ PatchCopy(const Arguments& a, const Place& place, const unsigned char* x,
                                       const unsigned char* shared)
      : columns_(a.w),
        place_(place),
        x_(x + static_cast<std::size_t>(place.n) * a.h * a.w * S::kInPitch),
        shared_(ptx::shared_address(shared)) {
    ptx::pin(x_);
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        held_[i] = piece(i);
        ptx::pin(held_[i].from);
        ptx::pin(held_[i].to);
      }
    }
  }

  __device__ __forceinline__ void begin() const {
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < kMine; ++i) copy(held_[i]);
    } else {
#pragma unroll 1
      for (int i = 0; i < kMine; ++i) copy(piece(i));
    }
  }

 private:
  struct Piece {
    int from;  ///< in the image; kNone: outside of it
    std::uint32_t to;
  };
  static constexpr unsigned kOfPixel = S::kInPitch / 16;
  static constexpr int kMine = ceil_div(S::kPatchH * S::kPatchW * static_cast<int>(kOfPixel), S::kThreads);
  static constexpr int kNone = -1;
  // Of few pieces addresses are computed before the wait for the predecessor. Of many that would be code without a
  // loop, and fetching it takes longer: each instruction runs once.
  static constexpr int kMostHeld = 3;
  static constexpr bool kHeld = kMine <= kMostHeld;

  __device__ __forceinline__ Piece piece(int i) const {
    const unsigned number = threadIdx.x + static_cast<unsigned>(i * S::kThreads);
    const unsigned pixel = number / kOfPixel;
    const int at = static_cast<int>(number % kOfPixel) * 16;
    const int row = static_cast<int>(pixel / S::kPatchW) - place_.lead_y;
    const int column = static_cast<int>(pixel % S::kPatchW) - place_.lead_x;
    const bool present = row >= 0 && row < place_.rows && column >= 0 && column < place_.columns;
    const int from = ((place_.top + row) * columns_ + place_.left + column) * S::kInPitch + at;
    return {present ? from : kNone,
            shared_ + static_cast<std::uint32_t>((row * place_.columns + column) * S::kSizes.x_pitch + at)};
  }

  __device__ __forceinline__ void copy(const Piece& piece) const {
    if (piece.from != kNone) ptx::copy_async_cg(piece.to, x_ + piece.from);
  }

  int columns_;  ///< of the image
  const Place& place_;
  const unsigned char* x_;
  std::uint32_t shared_;
  Piece held_[kHeld ? kMine : 1];
};

inline constexpr float kLeastFloat = 0x1p-149F;  // whose bits are 1

/// From a sum of a hidden value, its bias included, to what stored() takes. README.md, "From a sum to a byte".
template <Rounding kHow>
__device__ __forceinline__ std::uint32_t rounded(std::int32_t sum, float scale, float offset) {
  if constexpr (kHow == Rounding::Any) return rounded_any_sum(sum, scale);
  if constexpr (kHow == Rounding::Pairs) return rounded_clipped_sum(sum, scale, offset);
  const float value = ptx::fused_rounded(__uint_as_float(static_cast<std::uint32_t>(sum)), scale, offset);
  return __float_as_uint(ptx::multiply_rounded(value, kLeastFloat));
}

/// Four rounded() values as they are stored.
template <Rounding kHow>
__device__ __forceinline__ std::uint32_t stored(const UnsignedPair& to, std::uint32_t first, std::uint32_t second,
                                                std::uint32_t third, std::uint32_t fourth) {
  if constexpr (kHow == Rounding::Bytes) return ptx::clipped_bytes(first, second, third, fourth);
  return join_pairs(clipped_pair(to, first, second), clipped_pair(to, third, fourth));
}

/// Biases and multipliers of 8 neighbouring channels.
struct Scales {
  std::uint32_t bias[8];
  float scale[8];

  __device__ __forceinline__ Scales(const unsigned char* biases, const unsigned char* scales) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto words = *reinterpret_cast<const uint4*>(biases + i * 16);
      bias[4 * i] = words.x;
      bias[4 * i + 1] = words.y;
      bias[4 * i + 2] = words.z;
      bias[4 * i + 3] = words.w;
      const auto floats = *reinterpret_cast<const float4*>(scales + i * 16);
      scale[4 * i] = floats.x;
      scale[4 * i + 1] = floats.y;
      scale[4 * i + 2] = floats.z;
      scale[4 * i + 3] = floats.w;
    }
  }
};

/// Those of the lane's channels of a slice.
__device__ __forceinline__ Scales scales_of_lane(const unsigned char* biases, const unsigned char* scales) {
  return Scales(biases + quarter() * (kRun * 4), scales + quarter() * (kRun * 4));
}

/// Of a lane's 8 hidden channels: what sums begin at, of two channels and both rows of an mma's result, and arguments
/// of rounded(). `zero` is 0, and the compiler does not know it: of two registers that it knows to be equal it makes
/// copies for each mma that begins from them.
struct HiddenScales {
  std::int32_t begin[4][4];
  float scale[8];
  float offset[8];

  __device__ __forceinline__ HiddenScales(const Scales& of, std::int32_t zero) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      scale[i] = of.scale[i];
      offset[i] = ptx::multiply_rounded(scale[i], kClippedSumOffset);  // exact: a power of two
      begin[i / 2][i % 2] = add_wrapping(static_cast<std::int32_t>(of.bias[i]), zero);
      begin[i / 2][2 + i % 2] = add_wrapping(begin[i / 2][i % 2], zero);
    }
  }
};

/// hidden = expand x, for the warp's share of the pixels and its slice of a chunk, whose weights it loads first.
template <class S, Rounding kHow>
class Expand {
 public:
  /// `weights`: of the chunk.
  __device__ __forceinline__ Expand(const Arguments& a, const unsigned char* weights)
      : scales_(scales_of_lane(slice_of(weights) + S::kLayout.expand_bias, slice_of(weights) + S::kLayout.expand_scale),
                a.zero) {
    if constexpr (kKept) {
#pragma unroll
      for (int step = 0; step < S::kStepsK; ++step) {
        kept_[step][0] = weights_at(weights, step, 0);
        kept_[step][1] = weights_at(weights, step, 1);
      }
    }
  }

  __device__ __forceinline__ void run(const Arguments& a, int pixels, const unsigned char* weights, int chunk,
                                      unsigned char* shared) const {
    const auto* const slots = reinterpret_cast<const std::uint16_t*>(shared + S::kSlotsAt) + row_of_lane();
    const std::uint32_t plane =
        ptx::shared_address(hidden_of<S>(shared, chunk, warp() % S::kParts) + quarter() * S::kPlaneBytes);
    const std::uint32_t x = ptx::shared_address(shared + lane() % 16 * S::kSizes.x_pitch + lane() / 16 * 16);
    // Tiles together hide each other's latencies: a scheduler has 2 to 4 warps.
    constexpr int kTogether = S::kPatchTiles > 2 * S::kPixelWarps ? 2 : 1;
    constexpr int kNext = S::kPixelWarps * kTile;
#pragma unroll 1
    for (int first = warp() / S::kParts * kTile; first < pixels; first += kTogether * kNext) {
      std::int32_t sums[kTogether][4][4];
      const bool both = kTogether > 1 && first + kNext < pixels;
#pragma unroll
      for (int step = 0; step < S::kStepsK; ++step) {
        const uint4 low = kKept ? kept_[kKept ? step : 0][0] : weights_at(weights, step, 0);
        const uint4 high = kKept ? kept_[kKept ? step : 0][1] : weights_at(weights, step, 1);
#pragma unroll
        for (int tile = 0; tile < kTogether; ++tile) {
          const int at = tile > 0 && both ? first + kNext : first;
          const std::uint32_t from = x + static_cast<std::uint32_t>(at * S::kSizes.x_pitch + step * kSlice);
          const std::uint32_t columns[4][2] = {{low.x, low.y}, {low.z, low.w}, {high.x, high.y}, {high.z, high.w}};
          if constexpr (S::kHalfStep) {
            std::uint32_t pixel[2];
            ptx::ldmatrix_x2(pixel, from);
#pragma unroll
            for (int i = 0; i < 4; ++i) ptx::mma_s8_16x8x16(sums[tile][i], pixel, columns[i][0], scales_.begin[i]);
            continue;
          }
          std::uint32_t pixel[4];
          ptx::ldmatrix_x4(pixel, from);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (step == 0) {
              ptx::mma_s8_16x8x32(sums[tile][i], pixel, columns[i][0], columns[i][1], scales_.begin[i]);
            } else {
              ptx::mma_s8_16x8x32(sums[tile][i], pixel, columns[i][0], columns[i][1]);
            }
          }
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTogether; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t v[8];
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            v[i] = rounded<kHow>(sums[tile][i / 2][half * 2 + i % 2], scales_.scale[i], scales_.offset[i]);
          }
          const int slot = tile == 0 || both ? slots[first + tile * kNext + half * 8] : kNoSlot;
          const uint2 bytes{stored<kHow>(a.hidden, v[0], v[1], v[2], v[3]),
                            stored<kHow>(a.hidden, v[4], v[5], v[6], v[7])};
          store_hidden<S>(plane, slot, bytes);
        }
      }
    }
  }

 private:
  static constexpr int kMostKept = 2;  // steps of weights in registers
  static constexpr bool kKept = S::kStepsK <= kMostKept;

  __device__ __forceinline__ static const unsigned char* slice_of(const unsigned char* weights) {
    return weights + warp() % S::kParts * S::kLayout.bytes;
  }
  __device__ __forceinline__ static uint4 weights_at(const unsigned char* weights, int step, int pair) {
    return *reinterpret_cast<const uint4*>(slice_of(weights) + ((step * 2 + pair) * 32 + lane()) * 16);
  }

  HiddenScales scales_;
  uint4 kept_[kKept ? S::kStepsK : 1][2];
};

/// Of the tile of outputs, the i-th 16 pixels that the warp filters: neighbours, which share rows of hidden pixels.
template <class S>
__device__ __forceinline__ int tile_of_warp(int i) {
  return warp() / S::kParts * S::kMyOutTiles + i;
}

/// Depthwise of the warp's output pixels, over its slice of each chunk.
template <class S>
class Depthwise {
 public:
  __device__ __forceinline__ Depthwise() {
    // The 8 rows of each of ldmatrix's matrices are neighbours in one row of hidden pixels, unless the tile is narrower
    // than 8, so that all banks have one. Those beside the tile are the first of them once more, which is read at once.
    const int pixel = lane() % kTile;
    const int column = pixel % S::kColumns;
    const int slot = ((tile_of_warp<S>(0) * S::kRows + pixel / S::kColumns) * S::kRowPitch +
                      (column < S::kTileW ? column : column / 8 * 8)) *
                     S::kStride;
    from_ = slot * kGroup + lane() / kTile * 16 + (slot % 2 != 0 ? S::kSizes.shifted : 0);
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

  /// filtered: left operands of project.
  template <Rounding kHow>
  __device__ __forceinline__ void run(const Arguments& a, const unsigned char* weights, int chunk,
                                      unsigned char* shared, std::uint32_t (&filtered)[S::kMyOutTiles][4]) const {
    const int part = warp() % S::kParts;
    const unsigned char* const slice = weights + part * S::kLayout.bytes;
    const std::uint32_t hidden = ptx::shared_address(hidden_of<S>(shared, chunk, part));
    const HiddenScales scales(scales_of_lane(slice + S::kLayout.depthwise_bias, slice + S::kLayout.depthwise_scale),
                              a.zero);
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {  // of groups of channels
      std::uint32_t v[S::kMyOutTiles][2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int group = pair * 2 + i;
        std::uint32_t taps[3][2];
        const auto words =
            *reinterpret_cast<const uint4*>(slice + S::kLayout.taps + (group * kGroup + row_of_lane()) * kTapsPitch);
        const std::uint32_t rows[3] = {words.x, words.y, words.z};
#pragma unroll
        for (int row = 0; row < 3; ++row) {
          taps[row][0] = __byte_perm(rows[row], 0, diagonal_[0]);
          taps[row][1] = __byte_perm(rows[row], 0, diagonal_[1]);
        }
        std::int32_t sums[S::kMyOutTiles][4];
        // Rows of hidden pixels, each for all windows that have it; k is four pixels of 8 channels.
        constexpr int kAdvance = S::kRows * S::kStride;
#pragma unroll
        for (int hidden_row = 0; hidden_row < (S::kMyOutTiles - 1) * kAdvance + 3; ++hidden_row) {
          if (hidden_row % kAdvance > 2) continue;  // no window's
          std::uint32_t pixels[4];
          ptx::ldmatrix_x4(pixels, hidden + static_cast<std::uint32_t>(from_ + group * S::kPlaneBytes +
                                                                       hidden_row * S::kRowPitch * kGroup));
#pragma unroll
          for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
            const int row = hidden_row - tile * kAdvance;
            if (row == 0) ptx::mma_u8s8_16x8x32(sums[tile], pixels, taps[0][0], taps[0][1], scales.begin[group]);
            if (row == 1 || row == 2) ptx::mma_u8s8_16x8x32(sums[tile], pixels, taps[row][0], taps[row][1]);
          }
        }
#pragma unroll
        for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            v[tile][i][k] =
                rounded<kHow>(sums[tile][k], scales.scale[group * 2 + k % 2], scales.offset[group * 2 + k % 2]);
          }
        }
      }
#pragma unroll
      for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
        const auto& of = v[tile];
        filtered[tile][pair * 2] = stored<kHow>(a.filtered, of[0][0], of[0][1], of[1][0], of[1][1]);
        filtered[tile][pair * 2 + 1] = stored<kHow>(a.filtered, of[0][2], of[0][3], of[1][2], of[1][3]);
      }
    }
  }

 private:
  int from_;              ///< the lane's row of ldmatrix, within a plane of hidden pixels
  unsigned diagonal_[2];  ///< of a __byte_perm
};

/// The lane's words of a left operand of project.
template <class S>
__device__ __forceinline__ uint4* filtered_at(unsigned char* shared, int tile, int part) {
  return reinterpret_cast<uint4*>(shared + S::kFilteredAt + (tile * S::kParts + part) * kFragmentBytes) + lane();
}

/// Leaves what the warp filtered to those that project it.
template <class S>
__device__ __forceinline__ void store_filtered(const std::uint32_t (&filtered)[S::kMyOutTiles][4],
                                               unsigned char* shared) {
#pragma unroll
  for (int i = 0; i < S::kMyOutTiles; ++i) {
    *filtered_at<S>(shared, tile_of_warp<S>(i), warp() % S::kParts) =
        uint4{filtered[i][0], filtered[i][1], filtered[i][2], filtered[i][3]};
  }
}

/// Sums of 8 neighbouring pixels, counted through the tile of outputs, and 32 channels. A lane has 8 channels of one.
struct Piece {
  int octet, group;
};

/// Sums of project. A unit is 16 pixels and 32 channels.
template <class S>
class Project {
 public:
  __device__ __forceinline__ Project() {
#pragma unroll
    for (auto& unit : sums_) {
#pragma unroll
      for (auto& sums : unit) {
#pragma unroll
        for (std::int32_t& sum : sums) sum = 0;
      }
    }
  }

  /// Adds a chunk of one part, of the pixels that the warp filtered.
  __device__ __forceinline__ void add(const unsigned char* weights,
                                      const std::uint32_t (&filtered)[S::kMyOutTiles][4]) {
#pragma unroll
    for (int pair = 0; pair < S::kGroups * 2; ++pair) {
      const uint4 words = weights_at(weights, pair);
#pragma unroll
      for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
        add_pair(tile * S::kGroups + pair / 2, pair % 2, filtered[tile], words);
      }
    }
  }

  /// Adds a chunk of several parts, of the pixels that all warps filtered.
  __device__ __forceinline__ void add(const unsigned char* weights, unsigned char* shared) {
#pragma unroll
    for (int i = 0; i < S::kMyUnits; ++i) {
      const Unit unit(i);
      if (!unit.present()) break;
#pragma unroll
      for (int part = 0; part < S::kParts; ++part) {
        const uint4 operand = *filtered_at<S>(shared, unit.tile, part);
        const std::uint32_t filtered[4] = {operand.x, operand.y, operand.z, operand.w};
        const unsigned char* const slice = weights + part * S::kLayout.bytes;
#pragma unroll
        for (int half = 0; half < 2; ++half) add_pair(i, half, filtered, weights_at(slice, unit.group * 2 + half));
      }
    }
  }

  /// Leaves the sums of a round's output channels in shared memory, as lanes have them: (16 pixels, group of 32
  /// channels, four times 8, lane, 16 bytes), where the chunks' buffers were.
  __device__ __forceinline__ void leave(int round, unsigned char* shared) const {
    auto* const to = reinterpret_cast<int4*>(shared + S::kSumsAt) + lane();
#pragma unroll
    for (int i = 0; i < S::kMyUnits; ++i) {
      const Unit unit(i);
      if (!unit.present() || unit.group / S::kRoundGroups != round) continue;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const auto& sums = sums_[i][k];
        to[((unit.tile * S::kRoundGroups + unit.group % S::kRoundGroups) * 4 + k) * 32] =
            int4{sums[0], sums[1], sums[2], sums[3]};
      }
    }
  }

  /// body(piece, sums): the sums of each of the warp's pieces.
  template <class Body>
  __device__ __forceinline__ void for_each_piece(const Body& body) const {
#pragma unroll
    for (int i = 0; i < S::kMyUnits; ++i) {
      const Unit unit(i);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Piece piece{unit.tile * 2 + half, unit.group};
        if (piece.octet >= S::kOctets) break;
        std::int32_t sums[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) sums[k] = sums_[i][k / 2][half * 2 + k % 2];
        body(piece, sums);
      }
    }
  }

 private:
  struct Unit {
    int tile, group;

    __device__ __forceinline__ explicit Unit(int i)
        : tile(S::kParts == 1 ? tile_of_warp<S>(i / S::kGroups) : (warp() + i * S::kWarps) / S::kGroups),
          group(S::kParts == 1 ? i % S::kGroups : (warp() + i * S::kWarps) % S::kGroups) {}

    __device__ __forceinline__ bool present() const { return tile < S::kOutTiles; }
  };

  __device__ __forceinline__ static uint4 weights_at(const unsigned char* slice, int pair) {
    return *reinterpret_cast<const uint4*>(slice + S::kLayout.project + (pair * 32 + lane()) * 16);
  }

  __device__ __forceinline__ void add_pair(int unit, int half, const std::uint32_t (&filtered)[4], const uint4& words) {
    ptx::mma_u8s8_16x8x32(sums_[unit][half * 2], filtered, words.x, words.y);
    ptx::mma_u8s8_16x8x32(sums_[unit][half * 2 + 1], filtered, words.z, words.w);
  }

  std::int32_t sums_[S::kMyUnits][4][4];
};

/// Stores bytes of outputs.
template <class S>
class Store {
 public:
  /// 8 channels of a pixel of the tile, or of one beside it.
  struct Output {
    int row;
    bool in_columns;  ///< the column is one of the image's, and the channels are y's
    unsigned char* y;
    const unsigned char* x;  ///< that it is added to
  };

  __device__ __forceinline__ Store(const Arguments& a, const Place& place, const unsigned char* shared,
                                   // NOLINTNEXTLINE(readability-non-const-parameter): outputs are written there
                                   unsigned char* y)
      : a_(a),
        shared_(shared),
        y_(y + ((static_cast<std::size_t>(place.n) * a.out_h + place.oy) * a.out_w + place.ox) * S::kOutPitch),
        rows_(min(S::kTileH, a.out_h - place.oy)),
        columns_(min(S::kTileW, a.out_w - place.ox)),
        x_columns_(place.columns),
        first_x_((place.oy - place.top) * place.columns + place.ox - place.left) {}

  __device__ __forceinline__ Scales scales(int channel) const {
    const unsigned char* const biases = shared_ + S::kOutputAt + channel * 4;
    return Scales(biases, biases + S::kGroups * (kSlice * 4));
  }

  __device__ __forceinline__ Output at(int row, int column, int channel) const {
    return {row, column < columns_ && channel < S::kOutPitch,
            y_ + static_cast<std::size_t>(row * a_.out_w + column) * S::kOutPitch + channel,
            shared_ + (first_x_ + row * x_columns_ + column) * S::kSizes.x_pitch + channel};
  }
  __device__ __forceinline__ void move_down(Output& output, int rows) const {
    output.row += rows;
    output.y += static_cast<std::ptrdiff_t>(rows) * a_.out_w * S::kOutPitch;
    output.x += rows * x_columns_ * S::kSizes.x_pitch;
  }

  /// What store() adds, if anything.
  __device__ __forceinline__ uint2 residual(const Output& output) const {
    if (!S::kMayAdd || !a_.residual) return {};
    return *reinterpret_cast<const uint2*>(is_present(output) ? output.x : shared_);
  }

  __device__ __forceinline__ void store(const Output& output, const Scales& scales, const uint2& residual,
                                        const std::int32_t (&sums)[kRun]) const {
    float v[kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      const std::int32_t sum = add_wrapping(sums[i], static_cast<std::int32_t>(scales.bias[i]));
      v[i] = round_clipped(a_.output, ptx::multiply_rounded(ptx::float_of(sum), scales.scale[i]));
    }
    std::uint32_t words[2];
    if (S::kMayAdd && a_.residual) {
      words[0] = added(a_.sum, v, residual.x);
      words[1] = added(a_.sum, v + 4, residual.y);
    } else {
      words[0] = pack_bytes(a_.output, v[0], v[1], v[2], v[3]);
      words[1] = pack_bytes(a_.output, v[4], v[5], v[6], v[7]);
    }
    if (is_present(output)) ptx::store_global<2>(output.y, words);
  }

 private:
  __device__ __forceinline__ bool is_present(const Output& output) const {
    return output.in_columns && output.row < rows_;
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

  const Arguments& a_;
  const unsigned char* shared_;
  unsigned char* y_;    ///< of the tile's first pixel
  int rows_, columns_;  ///< of the tile, inside the image
  int x_columns_;
  int first_x_;  ///< the pixel of x under the tile's first
};

/// What does not depend on the sums of the lane's pixel and channels of a piece.
template <class S>
struct Aimed {
  typename Store<S>::Output output;
  Scales scales;
  uint2 residual;

  __device__ __forceinline__ Aimed(const Store<S>& store, const Piece& piece)
      : Aimed(store, piece.octet * kOctet + row_of_lane(), piece.group * kSlice + quarter() * kRun) {}

 private:
  __device__ __forceinline__ Aimed(const Store<S>& store, int pixel, int channel)
      : output(store.at(pixel / S::kColumns, pixel % S::kColumns, channel)),
        scales(store.scales(channel)),
        residual(store.residual(output)) {}
};

}  // namespace mobicuda::kernels::int8_block
