// Which configurations of the exact float cluster kernel a block may run, ranked by a model: README.md.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/inverted_residual/simt_cluster/host.h"

namespace mobicuda::kernels::inverted_simt_cluster {
namespace {

constexpr std::size_t kMost = 6;      // configurations of an answer
constexpr int kMostTileColumns = 14;  // of output pixels
constexpr int kMostTilePixels = 28;   // ... in all
constexpr int kMostRounds = 3;        // of blocks on each SM: beyond these, other families are faster
constexpr int kLeastBlockThreads = 128;
constexpr int kWarpSteps = 2;           // in which they are enumerated
constexpr int kMostBlockThreads = 512;  // as many as leave a thread 128 registers
constexpr int kRegisterFile = 65536;    // of an SM
constexpr int kMostRegisters = 255;     // of a thread
constexpr int kRegisterUnit = 8;        // in which a thread's registers are given
constexpr int kMostBlocksOfSm = 4;      // that are worth their weights
constexpr int kSchedulers = 4;
// Groups of SMs (GPCs), as which clusters ran at once on an H200 has it: of 18 SMs 16 hold clusters, and 10 of the
// rest.
constexpr int kSmsOfGroup = 18;
constexpr int kClusterSms = 16;
constexpr int kRestSms = 10;

/// Registers of a thread: the weights that stay there, and what all configurations take.
int registers_of(const Config& c, const Sizes& s) {
  const int others = c.stride == 1 ? 64 : 80;
  const int expand = s.expand_k * c.expand_channels;
  const int project = s.project_k * c.project_channels;
  return others + (c.early != 0 ? expand + project : std::max(expand, project));
}

/// Blocks that an SM has the registers and the shared memory for.
int blocks_of_sm(const Config& c, const Sizes& s, const DeviceTraits& gpu) {
  const int registers = round_up(registers_of(c, s), kRegisterUnit);
  if (registers > kMostRegisters) return 0;
  const auto bytes = static_cast<std::size_t>(s.shared_bytes) + gpu.reserved_shared_bytes;
  const auto by_shared_memory = static_cast<int>(gpu.shared_bytes_per_multiprocessor / bytes);
  return std::min({kMostBlocksOfSm, kRegisterFile / (registers * c.threads), by_shared_memory});
}

/// Cycles that a launch is expected to take.
double cycles(const Config& c, const Sizes& s, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  // Fitted to measurements, all at once: README.md.
  constexpr double kStep = 2320;     // from one launch to the next: the boundary, barriers, exchange, finish
  constexpr double kCrowded = 1220;  // where the next launch's clusters find no room beside this one's
  constexpr double kAfter = 760;     // where weights are loaded after the wait
  constexpr double kLarge = 450;     // of clusters of more blocks than are portable
  constexpr double kPatch = 0.26;    // of a float of the patch
  constexpr double kSlot = 7;        // a partial sum that is added
  constexpr double kLatency = 194;   // from the products of some pixels of a unit to those of the next
  constexpr double kProduct = 1.33;  // an FFMA of a warp, of those that a scheduler issues one after another
  constexpr double kRead = 4.9;      // a read of shared memory, of those too
  constexpr double kFilter = 1.37;   // an instruction of depthwise
  const double tiles = static_cast<double>(p.n) * ceil_div(p.out_h, c.rows) * ceil_div(p.out_w, c.columns);
  // A cluster finds its SMs in one of the groups (GPCs) that they form.
  const int groups = gpu.multiprocessors / kSmsOfGroup;
  const double at_once =
      std::max(1, groups * (kClusterSms * c.min_blocks / c.blocks) + kRestSms * c.min_blocks / c.blocks);
  const double rounds = std::ceil(tiles / at_once);
  const double each_sm = std::ceil(std::min(tiles, at_once) * c.blocks / gpu.multiprocessors);  // blocks side by side
  const auto warps = [&](int threads) { return std::ceil(each_sm * ceil_div(threads, 32) / kSchedulers); };
  const auto reads = [](int k) { return k / 4 + k % 4 / 2 + k % 2; };
  const auto products = [&](int units, int pixels, int step, int k, int channels) {
    const double issued = kProduct * k * channels + kRead * reads(k);
    return warps(units * kLanes) * pixels * issued + kLatency * pixels / step;
  };
  const double expand = products(s.expand_units, s.expand_pixels, s.expand_step, s.expand_k, c.expand_channels);
  const double project = products(s.project_units, s.project_pixels, s.project_step, s.project_k, c.project_channels);
  constexpr int kOther = 27;  // instructions of depthwise, besides products and reads
  const int filter_reads = s.patch_h * ((s.strip_columns - 1) * c.stride + 3);
  const int filter = 2 * kTaps * c.rows * s.strip_columns + 2 * filter_reads + kOther;
  const double depthwise = kFilter * warps(s.pairs * s.strips) * filter;
  const double step = kStep + kSlot * c.blocks + kPatch * each_sm * s.pixels * c.c_in + expand + depthwise + project;
  const bool crowded = 2 * std::min(tiles, at_once) > at_once;
  const bool large = c.blocks > limits_of(gpu.capability).cluster_blocks;
  return (crowded ? kCrowded : 0) + (c.early != 0 ? 0 : kAfter) + (large ? kLarge : 0) + rounds * step;
}

struct Ranked {
  Config config;
  double cycles;
};

/// Extents of tiles up to `most`, the smallest for each number of tiles beside each other.
std::vector<int> extents_of(int extent, int most) {
  std::vector<int> found;
  for (int one = 1; one <= std::min(extent, most); ++one) {
    if (ceil_div(extent, ceil_div(extent, one)) == one) found.push_back(one);
  }
  return found;
}

/// Units share `pixels` pixels in as many groups as there are units for, of `columns` columns; with `even` a group has
/// an even number. No group is without pixels; 0 where there are no groups.
int groups_of(int units, int columns, int pixels, bool even) {
  const int most = std::min(units / columns, pixels);
  if (most < 1) return 0;
  const int each = ceil_div(pixels, most);
  return ceil_div(pixels, even ? round_up(each, 2) : each);
}

/// The fastest configuration of the tile and the number of blocks; infinitely slow where there is none.
Ranked best_of(Config c, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  Ranked best{{}, std::numeric_limits<double>::infinity()};
  const auto take = [&] {
    c.early = 0;
    c.min_blocks = 1;
    if (!is_valid(c)) return;
    const Sizes s = sizes_of(c);
    for (c.early = 0; c.early < 2; ++c.early) {
      c.min_blocks = blocks_of_sm(c, s, gpu);
      if (c.min_blocks < 1) continue;
      const double expected = cycles(c, s, p, gpu);
      if (expected < best.cycles) best = {c, expected};
    }
  };
  for (c.threads = kLeastBlockThreads; c.threads <= kMostBlockThreads; c.threads += 32 * kWarpSteps) {
    const int units = c.threads / kLanes;
    for (const int expand_channels : {kLanes, kLanes / 2}) {
      for (const int project_channels : {kLanes, kLanes / 2}) {
        c.expand_channels = expand_channels;
        c.project_channels = project_channels;
        c.expand_groups = c.project_groups = 1;
        const Sizes one = sizes_of(c);
        for (const bool even : {false, true}) {
          c.expand_groups = groups_of(units, one.expand_columns, one.pixels, even);
          c.project_groups = groups_of(units, one.project_columns, one.out_pixels, even);
          take();
        }
      }
    }
  }
  return best;
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  std::vector<Ranked> ranked;
  if (p.elem != Elem::F32 || !p.expand || p.c_in % kLanes != 0) return {};
  for (const int columns : extents_of(p.out_w, kMostTileColumns)) {
    const int inside = patch_columns(p, columns);
    for (const int rows : extents_of(p.out_h, kMostTilePixels / columns)) {
      const double tiles = static_cast<double>(p.n) * ceil_div(p.out_h, rows) * ceil_div(p.out_w, columns);
      for (int blocks = 2; blocks <= std::min(gpu.large_cluster_blocks, kMostBlocks); ++blocks) {
        if (tiles * blocks > kMostRounds * gpu.multiprocessors) break;
        Config c{};
        c.blocks = blocks;
        c.stride = p.stride;
        c.c_in = p.c_in;
        c.c_hidden = p.c_hidden;
        c.c_out = p.c_out;
        c.rows = rows;
        c.columns = columns;
        c.patch_columns = inside;
        const Ranked best = best_of(c, p, gpu);
        if (best.config.blocks > 0 && supports(best.config, p, gpu)) ranked.push_back(best);
      }
    }
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; });
  std::vector<Config> found;
  for (const Ranked& one : ranked) {
    if (found.size() < kMost) found.push_back(one.config);
  }
  return found;
}

}  // namespace mobicuda::kernels::inverted_simt_cluster
