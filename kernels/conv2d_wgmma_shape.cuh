// Arguments, shape and ring of conv2d's kernel on wgmma, conv2d_wgmma_kernel.cuh.
#pragma once

#include <type_traits>

#include "conv2d_gemm_arguments.cuh"
#include "conv2d_wgmma_instructions.cuh"

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

/// How sums become y: by each thread, by all blocks of a cluster that share them, or as a tile in shared memory.
enum class End { Threads, Cluster, Tile };

struct Config {
  int bm, bn;
  int stages;
  int min_blocks;  ///< per multiprocessor
  int blocks = 1;  ///< of a cluster, which share the sum
  bool tile = false;
};

template <Config kConfig>
struct Shape {
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kBlocks = kConfig.blocks;
  static constexpr End kEnd = kConfig.tile ? End::Tile : kBlocks > 1 ? End::Cluster : End::Threads;
  static constexpr int kPanels = kBn / kPanelColumns;      ///< of B and of y
  static constexpr int kPanelBytes = kSliceK * kRowBytes;  ///< 64 columns of a slice of B
  static constexpr int kABytes = kBm * kRowBytes;
  static constexpr int kStageBytes = kABytes + kPanels * kPanelBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kSharedBytes = kRingBytes + kStages * 16;
  static constexpr int kRowBlocks = kBm / (64 * kGroups);  ///< of 64 rows, of a group of warps
  static constexpr int kSums = kBn / 2;                    ///< of a thread in a block of rows
  static_assert(kBm % (64 * kGroups) == 0 && kBn % kPanelColumns == 0);

  // As conv_gemm::finish_tile() takes them.
  static constexpr int kThreads = kGroups * kGroupThreads;
  static constexpr int kWarpsK = 1;
  static constexpr int kSumPitch = kBn + 8;  // floats, so that four rows of sums lie in different banks
  static_assert(kEnd != End::Cluster || kBm * kSumPitch * 4 <= kRingBytes);
  static_assert(kEnd != End::Tile || kBlocks == 1);

  // The tile of y lies in stages of the ring, panel by panel.
  static constexpr int kTilePanelBytes = kBm * kRowBytes;
  static constexpr int kStagePanels = kStageBytes / kTilePanelBytes;
  static constexpr int kTileStages = kEnd == End::Tile ? (kPanels + kStagePanels - 1) / kStagePanels : 0;
  static_assert(kTileStages < kStages);  // the last slice's stage is not given back

  using Arguments = std::conditional_t<kEnd == End::Tile, TileArguments, conv_wgmma::Arguments>;
};

struct Ring {
  std::uint32_t stages, full, empty;
};

/// The slices that a block adds up.
struct Part {
  int first, count;
};

}  // namespace mobicuda::kernels::conv_wgmma
