// Arguments and shape of int8_conv2d's kernel on wgmma, kernel.cuh.
#pragma once

#include "kernels/common/hardware_limits.h"
#include "kernels/int8_conv2d/arguments.cuh"
#include "kernels/ptx/tensor_map.h"

namespace mobicuda::kernels::int8_conv::wgmma {

inline constexpr int kSliceBytes = 128;  ///< of k
inline constexpr int kProductBytes = 32;
inline constexpr int kPanelColumns = 64;  ///< that are dealt out together
inline constexpr int kRun = 16;           ///< neighbouring outputs of a thread
inline constexpr int kGroupThreads = 128;
inline constexpr int kGroups = 2;  ///< of four warps, which share the rows

/// Classes of outputs along an axis: borders.h.
struct AxisClasses {
  int before, skipped;

  __device__ __forceinline__ int of(int output) const {
    return output < before ? output : max(before, output - skipped);
  }
};

struct Arguments : int8_conv::Arguments {
  CUtensorMap pixels, weights;
  CUtensorMap added;  ///< the residual, where there is one
  int slices;         ///< of a tile
  int tiles;
  int window_w;                  ///< taps of a row of the window
  bool has_borders;              ///< a pixel's bias is its class's
  int border_columns;            ///< classes of a row
  FastDivision of_row_of_tiles;  ///< tiles with the same pixels
  AxisClasses row, column;
};

struct Config {
  int bm, bn;
  int stages;
  int min_blocks;  ///< per multiprocessor
  int tiles;       ///< of the residual, that shared memory holds
};

template <Config kConfig>
struct Shape {
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kComputeThreads = kGroups * kGroupThreads;
  static constexpr int kBlockThreads = kComputeThreads + 32;
  static constexpr int kPanels = kBn / kPanelColumns;
  static constexpr int kPanelBytes = kPanelColumns * kSliceBytes;
  static constexpr int kXBytes = kBm * kSliceBytes;
  static constexpr int kStageBytes = kXBytes + kPanels * kPanelBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kAddedTiles = kConfig.tiles;
  static constexpr int kAddedPanelBytes = kBm * kPanelColumns;  ///< a row of it 64 bytes
  static constexpr int kAddedBytes = kPanels * kAddedPanelBytes;
  static constexpr int kBarriers = 2 * (kStages + kAddedTiles);
  static constexpr int kSharedBytes = kRingBytes + kAddedTiles * kAddedBytes + kBarriers * 8;
  static constexpr int kRowBlocks = kBm / (64 * kGroups);  ///< of 64 rows, of a group of warps
  static constexpr int kSums = kBn / 2;                    ///< of a thread in a block of rows
  static_assert(kBm % (64 * kGroups) == 0 && kBn % kPanelColumns == 0);
  static_assert(kSharedBytes <= shared_bytes_of_each(90, kMinBlocks));
};

}  // namespace mobicuda::kernels::int8_conv::wgmma
