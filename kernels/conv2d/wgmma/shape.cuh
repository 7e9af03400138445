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
inline constexpr int kGroups = 2;
inline constexpr int kGroupThreads = 128;
inline constexpr int kBlockThreads = kGroups * kGroupThreads + 32;
inline constexpr int kWarpRows = 16;  ///< of a block of 64 rows

struct Arguments : conv_gemm::Arguments {
  CUtensorMap pixels, weights;
  int tap_slices;  ///< slices of a tap
  int kernel_w;
};

/// Of variants whose tile of y passes through shared memory.
struct TileArguments : Arguments {
  CUtensorMap added;   ///< the residual, where there is one
  CUtensorMap result;  ///< y
};

struct Config {
  int bm, bn;
  int stages;
  int min_blocks;     ///< per multiprocessor
  bool tile = false;  ///< y passes through shared memory, else each thread writes what it has
};

template <Config kConfig>
struct Shape {
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr bool kTile = kConfig.tile;
  static constexpr int kPanels = kBn / kPanelColumns;      ///< of B and of y
  static constexpr int kPanelBytes = kSliceK * kRowBytes;  ///< 64 columns of a slice of B
  static constexpr int kABytes = kBm * kRowBytes;
  static constexpr int kStageBytes = kABytes + kPanels * kPanelBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kSharedBytes = kRingBytes + kStages * 16;
  // With so much two blocks fit on an SM, and three do not.
  static constexpr int kPairSharedBytes = kMinBlocks == 3 ? shared_bytes_of_each(90, kMinBlocks) + 128 : kSharedBytes;
  static_assert(kPairSharedBytes >= kSharedBytes && kMinBlocks <= 3);
  static constexpr int kRowBlocks = kBm / (64 * kGroups);  ///< of 64 rows, of a group of warps
  static constexpr int kSums = kBn / 2;                    ///< of a thread in a block of rows
  static_assert(kBm % (64 * kGroups) == 0 && kBn % kPanelColumns == 0);
  static_assert(kABytes % 1024 == 0 && kStageBytes % 1024 == 0);  // as the exchanged layout wants

  // The tile of y lies in stages of the ring, panel by panel.
  static constexpr int kTilePanelBytes = kBm * kRowBytes;
  static constexpr int kStagePanels = kStageBytes / kTilePanelBytes;
  static constexpr int kTileStages = kTile ? (kPanels + kStagePanels - 1) / kStagePanels : 0;
  static_assert(kTileStages < kStages);  // the last slice's stage is not given back

  using Arguments = std::conditional_t<kTile, TileArguments, conv_wgmma::Arguments>;
};

struct Ring {
  std::uint32_t stages, full, empty;
};

}  // namespace mobicuda::kernels::conv_wgmma
