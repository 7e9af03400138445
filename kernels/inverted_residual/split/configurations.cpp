// Which configurations of the kernel a block may run, ranked by a model: README.md.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/common/specialised_variants.h"
#include "kernels/inverted_residual/split/host.h"

namespace mobicuda::kernels::inverted_split {
namespace {

// Counted, not fitted: README.md. Cycles, where no other unit is told. A slot is a cycle of a scheduler in which it
// issues an instruction of a warp.
constexpr double kMma = 1.6;             // of the SM's tensor cores, for 16x8x16
constexpr double kElement = 3.5;         // slots of a hidden value: scale, bias, clip, store
constexpr double kFiltered = 6;          // slots of a filtered value: clip, two halves, store
constexpr double kLaunch = 2100;         // from one kernel's last block to the next one's
constexpr double kTile = 1200;           // of a block: patch, first weights, stores
constexpr double kStall = 350;           // of a chunk alone on an SM: two barriers, latencies of three stages
constexpr double kUneven = 0.85;         // blocks that an SM has in the last round, more than an even share
constexpr double kBytesPerCycle = 2000;  // of x and y, all SMs
constexpr double kWeightsPerCycle = 55;  // bytes of weights into an SM

constexpr std::size_t kMost = 6;     // configurations of an answer
constexpr int kRegisters = 65536;    // of an SM
constexpr int kMostRegisters = 255;  // of a thread
constexpr int kRegisterUnit = 8;     // in which a thread's registers are given
constexpr int kSchedulers = 4;
constexpr int kMostTile = 16;  // rows or columns
constexpr int kMostPixels = 200;
constexpr int kMostChunk = 96;
constexpr int kMostBlocks = 4;      // of an SM
constexpr int kMostWarpsOfSm = 24;  // more have too few registers each

/// Of a block: slots of all warps, cycles of shared memory and of tensor cores, cycles when it has the SM to itself.
struct Cost {
  double slots, shared, tensor, alone;
};

Cost cost_of(const Config& c, const Sizes& s) {
  constexpr double kWord = 4;  // cycles of a fragment's 512 bytes
  const int chunks = s.all_hidden / c.chunk;
  const double steps = c.c_in / static_cast<double>(kUnit);
  const double columns = static_cast<double>(c.c_out) / kColumns;
  const int pixel_tiles = s.expand_tiles * s.expand_m;
  const int row_tiles = s.project_rows * s.project_m;
  const int outputs = c.strip_h * c.strip_w;
  const int reads = ((c.strip_h - 1) * c.stride + 3) * ((c.strip_w - 1) * c.stride + 3);
  const double depthwise_warps = ceil_div(s.strip_items, 32);
  const double mma = s.units * (pixel_tiles * 2 * 3 * steps + row_tiles * columns * 3);
  const double expand = s.units * pixel_tiles * 8 * kElement;
  const double depthwise = depthwise_warps * (outputs * c.strip_c * (kTaps + kFiltered) + reads + kTaps + 40);
  const double project = s.units * row_tiles * columns * 4;
  Cost one{};
  one.slots = chunks * (mma + expand + depthwise + project);
  one.tensor = chunks * mma * kMma;
  one.shared = chunks * s.units *
               (pixel_tiles * 2 * kWord + 2 * steps * s.expand_m * kWord + s.row_tiles * 2 * kWord * (1 + c.project_n) +
                columns * s.project_m * kWord);
  one.shared += chunks * depthwise_warps * c.strip_c * (reads + kTaps + 1);
  const double of_warp = (expand + mma + project) / c.warps + depthwise / depthwise_warps;
  one.alone = kTile + chunks * (kStall + of_warp * std::max(1.0, c.warps / static_cast<double>(kSchedulers)));
  return one;
}

/// Registers of a thread without which nvcc 13.0 spills more than a few for sm_90.
int registers_of(const Config& c) {
  constexpr int kOthers = 28;
  constexpr int kExpand = 40;
  const Sizes s = sizes_of(c);
  const int pixels = s.expand_tiles * c.c_in / 2;
  const int sums = s.project_rows * s.project_columns * 4;
  const int outputs = c.strip_h * c.strip_w * c.strip_c;
  const int depthwise = outputs + (kTaps + (c.strip_w - 1) * c.stride + 3) * c.strip_c;
  return kOthers + pixels + sums + std::max(kExpand, depthwise);
}

/// Registers that a thread has: a scheduler has those of its warps of all blocks.
int registers_given(const Config& c) {
  const int warps = ceil_div(c.min_blocks * c.warps, kSchedulers);  // of a scheduler
  return std::min(kRegisters / kSchedulers / (32 * warps) / kRegisterUnit * kRegisterUnit, kMostRegisters);
}

/// Time of what goes on side by side, each waiting for the other at times: between the longer and the sum.
double overlapped(double a, double b) { return std::sqrt(a * a + b * b); }

double tiles_of(int tile_h, int tile_w, const InvertedResidualParams& p) {
  return static_cast<double>(p.n) * ceil_div(p.out_h, tile_h) * ceil_div(p.out_w, tile_w);
}

/// Cycles that a launch is expected to take.
double cycles(const Config& c, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  const Sizes s = sizes_of(c);
  const Cost one = cost_of(c, s);
  const int chunks = s.all_hidden / c.chunk;
  const double weights =
      static_cast<double>(chunks) * (s.front_floats + s.project_floats) * static_cast<double>(sizeof(float));
  const auto round = [&](double blocks) {  // side by side
    const double issuing = std::max(one.slots / kSchedulers, weights / kWeightsPerCycle);
    return overlapped(blocks * overlapped(issuing, std::max(one.shared, one.tensor)), one.alone);
  };
  const double of_sm = std::ceil(tiles_of(c.tile_h, c.tile_w, p) / gpu.multiprocessors);
  const double full = std::floor(of_sm / c.min_blocks);
  const double rest = of_sm - full * c.min_blocks;
  const double last = rest > 0 && full > 0 ? std::min(rest + kUneven, static_cast<double>(c.min_blocks)) : rest;
  const double computing = full * round(c.min_blocks) + (rest > 0 ? round(last) : 0);
  const double bytes = sizeof(float) * static_cast<double>(p.n) *
                       (static_cast<double>(p.h) * p.w * p.c_in + static_cast<double>(p.out_h) * p.out_w * p.c_out);
  return kLaunch + overlapped(computing, bytes / kBytesPerCycle);
}

bool fits(const Config& c, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return is_valid(c) && supports(c, p, gpu) && registers_of(c) <= registers_given(c) &&
         (shared_bytes(c) + gpu.reserved_shared_bytes) * static_cast<std::size_t>(c.min_blocks) <=
             gpu.shared_bytes_per_multiprocessor;
}

struct Ranked {
  Config config;
  double cycles;
};

/// The best split of the stages among the warps, with tile, chunk, warps and min_blocks given.
std::optional<Ranked> completed(Config c, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  Ranked best{{}, std::numeric_limits<double>::infinity()};
  const auto use = [&](const Config& tried) {
    if (!fits(tried, p, gpu)) return;
    const double expected = cycles(tried, p, gpu);
    if (expected < best.cycles) best = {tried, expected};
  };
  constexpr int kMostOutputs = 56;
  for (c.strip_h = 1; c.strip_h <= c.tile_h; ++c.strip_h) {
    for (c.strip_w = 1; c.strip_w <= c.tile_w; ++c.strip_w) {
      for (c.strip_c = 2; c.strip_c <= 4; c.strip_c *= 2) {
        if (c.strip_h * c.strip_w * c.strip_c > kMostOutputs) continue;
        if (ceil_div(c.tile_h, c.strip_h) * ceil_div(c.tile_w, c.strip_w) * (c.chunk / c.strip_c) > 32 * c.warps) {
          continue;
        }
        for (c.expand_n = 1; c.expand_n <= c.chunk / kUnit; ++c.expand_n) {
          for (c.project_n = 1; c.project_n <= c.warps; c.project_n *= 2) use(c);
        }
      }
    }
  }
  if (best.cycles == std::numeric_limits<double>::infinity()) return std::nullopt;
  return best;
}

std::vector<int> tile_sizes(int extent) {
  std::vector<int> sizes;
  for (int size = std::min(extent, kMostTile); size >= std::min(extent, 2); --size) {
    const int covered = round_up(extent, size);
    const int most = extent <= 12 ? extent * 5 / 4 : extent + extent / 16;
    if (covered <= most) sizes.push_back(size);
  }
  return sizes;
}

struct Tile {
  int h, w;
  double cycles;  ///< in proportion to the least that a launch takes
};

/// Those whose hidden pixels, borders included, are the fewest for the busiest SM.
std::vector<Tile> tiles_to_try(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr std::size_t kMostTiles = 12;
  std::vector<Tile> tiles;
  for (const int h : tile_sizes(p.out_h)) {
    for (const int w : tile_sizes(p.out_w)) {
      if (h * w > kMostPixels || h > w) continue;
      const int patch = round_up(((h - 1) * p.stride + 3) * ((w - 1) * p.stride + 3), kRows);
      tiles.push_back({h, w, std::ceil(tiles_of(h, w, p) / gpu.multiprocessors) * (patch + h * w)});
    }
  }
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.cycles < b.cycles; });
  tiles.resize(std::min(tiles.size(), kMostTiles));
  return tiles;
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  if (!p.split || !p.expand || p.elem != Elem::F32) return {};
  std::vector<Ranked> ranked;
  const int hidden = round_up(p.c_hidden, kUnit);
  for (const Tile& tile : tiles_to_try(p, gpu)) {
    for (int chunk = kUnit; chunk <= std::min(hidden, kMostChunk); chunk += kUnit) {
      if (hidden % chunk != 0) continue;
      std::optional<Ranked> first;  // of this tile and chunk
      for (const int warps : {4, 6, 8, 12}) {
        for (int blocks = 1; blocks <= kMostBlocks && blocks * warps <= kMostWarpsOfSm; ++blocks) {
          Config c{};
          c.stride = p.stride;
          c.tile_h = tile.h;
          c.tile_w = tile.w;
          c.c_in = p.c_in;
          c.c_hidden = p.c_hidden;
          c.c_out = p.c_out;
          c.chunk = chunk;
          c.warps = warps;
          c.min_blocks = blocks;
          const auto found = completed(c, p, gpu);
          if (found && (!first || found->cycles < first->cycles)) first = found;
        }
      }
      if (first) ranked.push_back(*first);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; });
  std::vector<Config> found;
  for (std::size_t i = 0; i < std::min(ranked.size(), kMost); ++i) found.push_back(ranked[i].config);
  return found;
}

}  // namespace mobicuda::kernels::inverted_split
