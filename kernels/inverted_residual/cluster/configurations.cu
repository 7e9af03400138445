// Which configurations of the cluster kernel a block may run, ranked by a model: README.md.

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/inverted_residual/cluster/host.h"
#include "kernels/inverted_residual/cluster_ranking.h"
#include "kernels/inverted_residual/host.h"

namespace mobicuda::kernels::inverted_cluster {
namespace {

constexpr int kTileColumns = 4;  // of output pixels

/// Registers of a thread: the weights that stay there, and what all configurations take.
int registers_of(const Sizes& s) {
  constexpr int kOthers = 104;
  return kOthers + 8 * s.blocks_k + 4 * s.warp_m * s.warp_k;
}

Fit fit_of(const Sizes& s) {
  constexpr int kRegisterFile = 65536;  // of an SM
  constexpr int kMostRegisters = 255;   // of a thread
  constexpr int kRegisterUnit = 8;      // in which a thread's registers are given
  // A few registers less cost little: weights of the expansion are dead while project runs.
  constexpr int kTolerated = 40;
  const int wanted = registers_of(s);
  for (const int blocks : {2, 1}) {
    const int given = std::min(kRegisterFile / (blocks * s.threads) / kRegisterUnit * kRegisterUnit, kMostRegisters);
    if (wanted - kTolerated <= given) return {blocks, std::max(0, wanted - given)};
  }
  return {};
}

/// Cycles that a launch is expected to take.
double cycles(const Config& c, const Sizes& s, const Fit& fit, const InvertedResidualParams& p,
              const DeviceTraits& gpu) {
  // Fitted to measurements, all at once: README.md.
  constexpr double kLaunch = 1610;  // from one kernel's last block to the next one's first instruction after its wait
  constexpr double kCrowded = 630;  // where the next launch's clusters find no room beside this one's
  constexpr double kLarge = 1000;   // of clusters that not every GPU runs
  constexpr double kStep = 1090;    // patch, depthwise, exchange and finish
  constexpr double kExpand = 11.4;  // of a product, of those that a scheduler runs one after another
  constexpr double kIssued = 13.7;  // a product of project
  constexpr double kChained = 70;   // one that adds to the sum of the one before
  constexpr double kSlot = 31;      // a partial sum that is added
  constexpr double kMissing = 26;   // a register that a thread lacks
  constexpr double kBytesPerCycle = 81;  // of weights from L2 into an SM
  constexpr double kHidden = 270;        // cycles in which weights arrive while the kernel before runs
  const double tiles = static_cast<double>(p.n) * ceil_div(p.out_h, s.rows) * ceil_div(p.out_w, c.columns);
  const double blocks = tiles * c.blocks;
  const double at_once = clusters_at_once(c.blocks, fit.blocks, gpu);
  const double rounds = std::ceil(tiles / at_once);
  const double each_sm = std::max(1.0, std::min(blocks, at_once * c.blocks) / gpu.multiprocessors);  // on average
  const double weights = s.block_units * (s.unit_bytes + static_cast<double>(s.fragments_m) * kFragmentBytes);
  const double late = std::max(0.0, each_sm * weights / kBytesPerCycle - kHidden);
  const double expand = kExpand * s.blocks_k * 2 * s.patches * ceil_div(s.block_units, kSchedulers);
  const int chains = s.warp_m == 1 && s.warp_k > 2 ? 2 : 1;  // as Projection::run() has them
  const double issued = kIssued * s.warp_m * s.warp_k * ceil_div(c.groups_m * c.groups_k, kSchedulers);
  const double project = std::max(kChained * ceil_div(s.warp_k, chains), issued);
  const double step = kStep + expand + project + kSlot * s.slots + kMissing * fit.missing;
  const bool crowded = 2 * std::min(tiles, at_once) > at_once;
  const bool large = c.blocks > kPortableBlocks;
  return kLaunch + (crowded ? kCrowded : 0.0) + (large ? kLarge : 0.0) + late + rounds * step * (1 + (each_sm - 1) / 2);
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  Config kind{};
  kind.stride = p.stride;
  kind.c_in = p.c_in;
  kind.c_hidden = p.c_hidden;
  kind.c_out = p.c_out;
  kind.columns = kTileColumns;
  kind.hard_swish = inverted_host::hard_swishes(p) ? 1 : 0;
  return ranked(
      std::span<const Config>(&kind, 1), p, gpu, [](const Config& /*config*/, const Sizes& s) { return fit_of(s); },
      [&](const Config& c, const Sizes& s, const Fit& fit) { return cycles(c, s, fit, p, gpu); });
}

}  // namespace mobicuda::kernels::inverted_cluster
