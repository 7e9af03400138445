// Which configurations of the kernel of split products in clusters a block may run, ranked by a model: README.md.

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/inverted_residual/cluster_ranking.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/split_cluster/host.h"

namespace mobicuda::kernels::inverted_split_cluster {
namespace {

using inverted_cluster::Fit;
using inverted_cluster::kPortableBlocks;
using inverted_cluster::kSchedulers;

constexpr int kTileColumns = 4;  // of output pixels

/// Registers of a thread: the weights that stay there, and what all configurations take.
int registers_of(const Config& c, const Sizes& s) {
  constexpr int kOthers = 144;
  return kOthers + 16 * s.blocks_k + (c.staged != 0 ? 0 : 8 * s.warp_m * s.warp_k);
}

/// How many blocks fit an SM, at most two, the second one for the next launch.
Fit fit_of(const Config& c, const Sizes& s, const DeviceTraits& gpu) {
  constexpr int kRegisterFile = 16384;  // of a scheduler
  constexpr int kMostRegisters = 255;   // of a thread
  constexpr int kRegisterUnit = 8;      // in which a thread's registers are given
  constexpr int kTolerated = 80;  // spilled, these still take less than a step of fewer warps: B12 in clusters of three
  const int wanted = registers_of(c, s);
  const auto shared = static_cast<std::size_t>(s.shared_bytes) + gpu.reserved_shared_bytes;
  for (const int blocks : {2, 1}) {
    const int warps = ceil_div(blocks * c.warps, kSchedulers);
    const int given = std::min(kRegisterFile / (32 * warps) / kRegisterUnit * kRegisterUnit, kMostRegisters);
    if (wanted - kTolerated <= given && blocks * shared <= gpu.shared_bytes_per_multiprocessor) {
      return {blocks, std::max(0, wanted - given)};
    }
  }
  return {};
}

/// Cycles that a launch is expected to take.
double cycles(const Config& c, const Sizes& s, const Fit& fit, const InvertedResidualParams& p,
              const DeviceTraits& gpu) {
  // Fitted to measurements, all at once: README.md.
  constexpr double kLaunch = 1765;   // from one kernel's last block to the next one's first instruction after its wait
  constexpr double kCrowded = 1000;  // where the next launch's clusters find no room beside this one's
  constexpr double kLarge = 2750;    // of clusters that not every GPU runs
  constexpr double kStep = 970;      // depthwise, exchange and barriers
  constexpr double kSplit = 432;     // 8 channels of a pixel of the patch, of those that a thread splits
  constexpr double kExpand = 8.7;    // of a product, of those that a scheduler runs one after another
  constexpr double kProject = 8.7;
  constexpr double kStaged = 1020;   // weights of project from shared memory
  constexpr double kFragment = 2.1;  // of these, a fragment of a warp
  constexpr double kSlot = 8.8;      // a partial sum that is added
  constexpr double kMissing = 24;    // a register that a thread lacks
  constexpr double kMissingStaged = 45;
  constexpr double kMore = 0.15;           // of a step, for each further block of an SM
  constexpr double kBytesPerCycle = 2435;  // of weights from L2, all SMs together
  constexpr double kHidden = 3900;         // cycles in which weights arrive while the kernel before runs
  constexpr int kProducts = 3;             // of halves
  const double tiles = static_cast<double>(p.n) * ceil_div(p.out_h, s.rows) * ceil_div(p.out_w, c.columns);
  const double at_once = inverted_cluster::clusters_at_once(c.blocks, fit.blocks, gpu);
  const double rounds = std::ceil(tiles / at_once);
  const double blocks = std::min(tiles, at_once) * c.blocks;
  const double each_sm = std::max(1.0, blocks / gpu.multiprocessors);  // on average
  const double weights =
      s.block_units * (s.unit_bytes + static_cast<double>(s.fragments_m) * (kHalves * kFragmentBytes));
  const double late = std::max(0.0, blocks * weights / kBytesPerCycle - kHidden);
  const double expand = kProducts * s.blocks_k * 2 * s.patches * ceil_div(s.block_units, kSchedulers);
  const int warps = c.groups_m * c.groups_k;
  const double project = kProducts * s.warp_m * s.warp_k * ceil_div(warps, kSchedulers);
  const double pieces = static_cast<double>(s.pixels * s.blocks_k) * kDirectBlockK / 8 / s.threads;
  const double staged = c.staged == 0 ? 0.0 : kStaged + kFragment * s.warp_m * s.warp_k * warps;
  const double missing = (c.staged == 0 ? kMissing : kMissingStaged) * fit.missing;
  const double step =
      kStep + kSplit * pieces + kExpand * expand + kProject * project + staged + kSlot * s.slots * s.owned + missing;
  const bool crowded = 2 * std::min(tiles, at_once) > at_once;
  const bool large = c.blocks > kPortableBlocks;
  return kLaunch + (crowded ? kCrowded : 0.0) + (large ? kLarge : 0.0) + late +
         rounds * step * (1 + (each_sm - 1) * kMore);
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  Config kind{};
  kind.stride = p.stride;
  kind.c_in = p.c_in;
  kind.c_hidden = p.c_hidden;
  kind.c_out = p.c_out;
  kind.columns = kTileColumns;
  Config staged = kind;
  staged.staged = 1;
  const Config kinds[] = {kind, staged};
  return inverted_cluster::ranked(
      std::span<const Config>(kinds), p, gpu, [&](const Config& c, const Sizes& s) { return fit_of(c, s, gpu); },
      [&](const Config& c, const Sizes& s, const Fit& fit) { return cycles(c, s, fit, p, gpu); });
}

}  // namespace mobicuda::kernels::inverted_split_cluster
