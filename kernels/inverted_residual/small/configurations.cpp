// Which configurations of the small kernel a block may take, and what a model expects of each: README.md, "Model".

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/small/host.h"

namespace mobicuda::kernels::inverted_small {
namespace {

// Fitted to the measurements in README.md, all at once. Times in us.
constexpr double kLaunch = 0.57;
constexpr double kCrowded = 0.40;     // where a successor's blocks find no room beside this launch's
constexpr double kRound = 0.29;       // of tiles, one for each block that the GPU holds
constexpr double kStep = 0.0008;      // of a warp, alone ...
constexpr double kWarpStep = 0.0052;  // ... and beside others: for each warp of a quarter of an SM
constexpr double kSum = 0.0095;       // of a thread: a partial sum that it adds up
constexpr double kMissing = 0.006;    // of a round, for each register that a thread lacks
constexpr double kL2Bytes = 4.1e6;    // of weights, in one us

// Steps are a warp's instructions of the tensor cores, and what takes it as long.
constexpr double kExpandSteps = 2.3;      // of 8 hidden pixels of a unit, besides the products: bounds, stmatrix
constexpr double kDepthwiseSteps = 11.7;  // of 16 outputs of a unit: ldmatrix, products, bounds

constexpr int kQuarters = 4;              // of an SM: schedulers, each with registers of its own
constexpr int kRegistersOfQuarter = 512;  // for the threads of one warp
constexpr int kMostRegisters = 255;       // of a thread
constexpr int kMostThreadsOfSm = 2048;
constexpr int kMostMissing = 70;  // registers of a thread
constexpr std::size_t kMostConfigurations = 6;

/// What an SM makes of a configuration.
struct Fit {
  int registers;  ///< of a thread
  int missing;    ///< registers of a thread: about as many are spilled
  int blocks;     ///< that an SM holds
};

/// Registers of a thread: fitted to what nvcc 13.0 takes for sm_90.
Fit fit_of(const Config& config, const Sizes& s, const DeviceTraits& gpu) {
  constexpr int kOfWalking = 16;
  constexpr int kWelcome = 32;  // to a kernel that walks, where there are as many
  const double weights = s.units * (44 + 0.14 * config.c_in + 0.29 * config.c_out);
  const double patch = s.my_patch_tiles * (2 + 0.16 * config.c_in);
  const int needed = static_cast<int>(14 + weights + patch + 2.5 * s.my_out_tiles) + config.walks * kOfWalking;
  const int warps = s.threads / 32;
  const int most =
      std::min(kMostRegisters, kRegistersOfQuarter / ceil_div(warps * config.min_blocks, kQuarters) / 8 * 8);

  Fit fit{};
  fit.registers = round_up(std::min(needed + config.walks * kWelcome, most), 8);
  fit.missing = std::max(0, needed - most);
  const std::size_t shared_bytes = static_cast<std::size_t>(s.shared_bytes) + gpu.reserved_shared_bytes;
  fit.blocks = std::min({kRegistersOfQuarter / fit.registers * kQuarters / warps, kMostThreadsOfSm / s.threads,
                         static_cast<int>(gpu.shared_bytes_per_multiprocessor / shared_bytes)});
  return fit;
}

/// More than one block shall not cost registers.
bool is_sensible(const Config& config, const Fit& fit) {
  return fit.blocks >= config.min_blocks && fit.missing <= (config.min_blocks == 1 ? kMostMissing : 0);
}

std::int64_t tiles(const Config& config, const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, config.tile_h) * ceil_div(p.out_w, config.tile_w);
}

/// Of a warp, for a tile.
double steps(const Config& config, const Sizes& s) {
  const double expand = s.my_patch_tiles * (kExpandSteps + config.c_in / 16.0);
  const double rest = s.my_out_tiles * (kDepthwiseSteps + s.strips);
  return s.units * (expand + rest);
}

/// In us.
double expected_time(const Config& config, const Sizes& s, const Fit& fit, std::int64_t count, int multiprocessors) {
  const std::int64_t at_once = std::int64_t{multiprocessors} * fit.blocks;
  const std::int64_t rounds = (count + at_once - 1) / at_once;
  const std::int64_t neighbours = (std::min(count, at_once) + multiprocessors - 1) / multiprocessors;  // of an SM
  const double warps = s.threads / 32.0 * static_cast<double>(neighbours) / kQuarters;
  const bool crowded = rounds == 1 && 2 * count > multiprocessors && 2 * neighbours > fit.blocks;
  const double round = kRound + steps(config, s) * (kStep + kWarpStep * warps) + kSum * s.slices * s.finish_channels +
                       kMissing * fit.missing;
  const double weights = static_cast<double>(s.packed_bytes) * static_cast<double>(std::min(count, at_once));
  return std::max(kLaunch + (crowded ? kCrowded : 0.0) + static_cast<double>(rounds) * round, weights / kL2Bytes);
}

struct Candidate {
  Config config;
  double time;
};

/// With as many blocks for each SM, and walking or not, as takes the shortest time.
std::optional<Candidate> best_of(Config config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kMostBlocks = 4;
  std::optional<Candidate> best;
  for (const int walks : {0, 1}) {
    for (int min_blocks = 1; min_blocks <= kMostBlocks; ++min_blocks) {
      config.walks = walks;
      config.min_blocks = min_blocks;
      if (!is_valid(config) || !supports(config, p, gpu)) continue;
      const Sizes s = sizes_of(config);
      const Fit fit = fit_of(config, s, gpu);
      const std::int64_t count = tiles(config, p);
      const bool many = count > std::int64_t{gpu.multiprocessors} * fit.blocks;
      if (!is_sensible(config, fit) || many != (walks == 1)) continue;
      const double time = expected_time(config, s, fit, count, gpu.multiprocessors);
      if (!best || time < best->time) best = {config, time};
    }
  }
  return best;
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  struct Tile {
    int h, w;
  };
  constexpr Tile kTiles[] = {{2, 2}, {2, 4}, {4, 4}, {2, 8}, {4, 8}, {8, 8}};
  std::vector<Candidate> candidates;
  if (!p.expand) return {};
  for (const Tile tile : kTiles) {
    for (const int slice : {16, 32, 48, 64}) {
      for (const int parts : {1, 2, 4}) {
        const Config config{p.c_in,
                            p.c_hidden,
                            p.c_out,
                            p.stride,
                            tile.h,
                            tile.w,
                            slice,
                            parts,
                            1,
                            0,
                            inverted_host::hard_swishes(p) ? 1 : 0};
        if (const std::optional<Candidate> best = best_of(config, p, gpu)) candidates.push_back(*best);
      }
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  std::vector<Config> first;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMostConfigurations); ++i) {
    first.push_back(candidates[i].config);
  }
  return first;
}

}  // namespace mobicuda::kernels::inverted_small
