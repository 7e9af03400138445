// Configurations of kernels of clusters in the order of what a model expects them to take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "kernels/inverted_residual/cluster_shape.cuh"
#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda::kernels::inverted_cluster {

inline constexpr int kSchedulers = 4;

/// How a configuration's registers fit an SM.
struct Fit {
  int blocks;   ///< that it holds, at most two; 0: too few registers, or shared memory
  int missing;  ///< registers of a thread
};

/// Clusters that the GPU holds at once. A cluster finds its SMs in one of the groups (GPCs) that they form.
inline int clusters_at_once(int cluster, int blocks_of_sm, const DeviceTraits& gpu) {
  constexpr int kGroup = 16;  // SMs of a GPC: of an H200 most have 16 or 18
  const int groups = std::max(1, gpu.multiprocessors / kGroup);
  const int resident = std::min(gpu.multiprocessors, kGroup) * blocks_of_sm;
  return std::max(1, groups * (resident / cluster));
}

/// For each number of blocks of a cluster the split of project among the warps with the least cycles, of any of
/// `kinds`, which have all else; at most six. fit(config, sizes): a Fit; cycles(config, sizes, fit).
template <class Config, class FitOf, class Cycles>
std::vector<Config> ranked(std::span<const Config> kinds, const InvertedResidualParams& p, const DeviceTraits& gpu,
                           const FitOf& fit, const Cycles& cycles) {
  constexpr std::size_t kMost = 6;
  constexpr int kMostBlockWarps = 16;  // as many as leave a thread 128 registers
  struct Ranked {
    Config config;
    double cycles;
  };
  std::vector<Ranked> all;
  for (int blocks = 2; blocks <= gpu.large_cluster_blocks; ++blocks) {
    Ranked best{{}, std::numeric_limits<double>::infinity()};  // of so many blocks
    for (Config c : kinds) {
      for (int groups_k = 1; groups_k <= kSchedulers; ++groups_k) {
        for (int groups_m = 1; groups_m * groups_k <= kMostBlockWarps; ++groups_m) {
          c.blocks = blocks;
          c.warps = kMostWarps;
          c.groups_m = groups_m;
          c.groups_k = groups_k;
          c.min_blocks = 1;
          const Sizes wide = sizes_of(c);
          if (groups_m > wide.fragments_m) break;
          c.warps = std::max({wide.block_units, wide.owned, groups_m * groups_k});
          if (c.warps > kMostBlockWarps) continue;
          const Sizes s = sizes_of(c);
          const Fit fitting = fit(c, s);
          c.min_blocks = fitting.blocks;
          if (!is_valid(c) || !supports(c, p, gpu)) continue;
          const double expected = cycles(c, s, fitting);
          if (expected < best.cycles) best = {c, expected};
        }
      }
    }
    if (best.config.blocks > 0) all.push_back(best);
  }
  std::sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; });
  std::vector<Config> found;
  for (const Ranked& one : all) {
    if (found.size() < kMost) found.push_back(one.config);
  }
  return found;
}

}  // namespace mobicuda::kernels::inverted_cluster
