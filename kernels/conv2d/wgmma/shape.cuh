// Arguments, shape and ring of conv2d's kernel on wgmma, kernel.cuh.
#pragma once

#include "kernels/common/hardware_limits.h"
#include "kernels/common/std.h"
#include "kernels/conv2d/gemm_arguments.cuh"
#include "kernels/ptx/tensor_map.h"

namespace mobicuda::kernels::conv_wgmma {

using conv_gemm::TilePlace;

inline constexpr int kSliceK = 64;
inline constexpr int kRowBytes = 128;  ///< of A: 64 channels; of B and of y: 64 columns
inline constexpr int kPanelColumns = 64;
inline constexpr int kGroupThreads = 128;
inline constexpr int kWarpRows = 16;  ///< of a block of 64 rows
inline constexpr int kStripBytes = kWarpRows * kRowBytes;

struct Arguments : conv_gemm::Arguments {
  CUtensorMap pixels, weights;
  CUtensorMap second_pixels;  ///< of x2, where there is a second convolution
  int tap_slices;             ///< slices of a tap
  int own_slices;             ///< those behind them are the second convolution's
  int kernel_w;
};

/// Of variants whose tile of y passes through shared memory.
struct TileArguments : Arguments {
  CUtensorMap added;   ///< the residual, where there is one
  CUtensorMap result;  ///< y
};

/// How the sums become y, and how many tiles a block has.
enum class Way : std::uint8_t {
  Direct,      ///< one tile; each thread writes what it has
  Tile,        ///< one tile; y passes through the ring
  Persistent,  ///< as many tiles as there are for it; y passes through shared memory of its own
  Pooled,      ///< so, and y is the largest of 2x2 pixels, whose windows are in the four quarters of a tile's rows
};

struct Config {
  int bm, bn;
  int stages;
  int min_blocks;  ///< per multiprocessor
  Way way = Way::Direct;
  int strips = 0;  ///< with Persistent: 16 rows x 64 columns of y that a warp has in shared memory at once
  int split = 1;   ///< with Direct: blocks of a cluster, which share a tile's sum
  int pair = 1;    ///< 2, with Persistent: blocks of a cluster, whose tiles have the same pixels
  int groups = 2;  ///< of four warps, which share the rows
};

template <Config kConfig>
struct Shape {
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr bool kTile = kConfig.way == Way::Tile;
  static constexpr bool kPooled = kConfig.way == Way::Pooled;
  static constexpr bool kPersistent = kConfig.way == Way::Persistent || kPooled;
  static constexpr int kGroups = kConfig.groups;
  static constexpr int kComputeThreads = kGroups * kGroupThreads;
  static constexpr int kBlockThreads = kComputeThreads + 32;
  static constexpr int kStrips = kConfig.strips;
  static constexpr int kSplit = kConfig.split;
  static constexpr int kPair = kConfig.pair;
  static constexpr int kCluster = kSplit * kPair;
  static constexpr int kQuarters = kPooled ? 4 : 1;
  static constexpr int kPixels = kBm / kQuarters;          ///< of y in a tile
  static constexpr int kCopiedPixels = kPixels / kPair;    ///< by one copy
  static constexpr int kPanels = kBn / kPanelColumns;      ///< of B and of y
  static constexpr int kPanelBytes = kSliceK * kRowBytes;  ///< 64 columns of a slice of B
  static constexpr int kABytes = kBm * kRowBytes;
  static constexpr int kStageBytes = kABytes + kPanels * kPanelBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kStripsBytes = kGroups * 4 * kStrips * kStripBytes;
  static constexpr int kSharedBytes = kRingBytes + kStripsBytes + kStages * 16;
  // With so much two blocks fit on an SM, and three do not.
  static constexpr int kPairSharedBytes = kMinBlocks == 3 ? shared_bytes_of_each(90, kMinBlocks) + 128 : kSharedBytes;
  static_assert(kPairSharedBytes >= kSharedBytes && kMinBlocks <= 3);
  static_assert(kPersistent == (kStrips > 0));
  static_assert(kSplit == 1 || kConfig.way == Way::Direct);
  static_assert(kPair == 1 || kPersistent);
  static constexpr int kRowBlocks = kBm / (64 * kGroups);  ///< of 64 rows, of a group of warps
  static constexpr int kSums = kBn / 2;                    ///< of a thread in a block of rows
  static_assert(kBm % (64 * kGroups) == 0 && kBn % kPanelColumns == 0);
  static_assert(kABytes % 1024 == 0 && kStageBytes % 1024 == 0);  // as the exchanged layout wants
  // A group has the two quarters of an upper or a lower row of pixels, a block of rows each.
  static_assert(!kPooled || (kGroups == 2 && kPair == 1 && kRowBlocks == 2 && kStrips >= kPanels));

  // Of a thread's sums of a row block each block of the cluster finishes so many, whole runs of four blocks of 8
  // columns.
  static constexpr int kShare = kSums / kSplit;
  static_assert(kSplit == 1 || (kShare % 16 == 0 && kBm * kBn * static_cast<int>(sizeof(float)) <= kRingBytes));

  // The tile of y lies in stages of the ring, panel by panel.
  static constexpr int kTilePanelBytes = kBm * kRowBytes;
  static constexpr int kStagePanels = kStageBytes / kTilePanelBytes;
  static constexpr int kTileStages = kTile ? (kPanels + kStagePanels - 1) / kStagePanels : 0;
  static_assert(kTileStages < kStages);  // the last slice's stage is not given back

  using Arguments = std::conditional_t<kConfig.way == Way::Direct, conv_wgmma::Arguments, TileArguments>;
};

/// Tiles of y.
template <class S>
__host__ __device__ constexpr int tiles(int m, int n_tiles) {
  return (m + S::kPixels - 1) / S::kPixels * n_tiles;
}

struct Ring {
  std::uint32_t stages, full, empty;
};

/// A stage of the ring, and the parity of the phase in which its next slice arrives, or in which it is free again.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  template <class S>
  __device__ __forceinline__ void advance() {
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

}  // namespace mobicuda::kernels::conv_wgmma
