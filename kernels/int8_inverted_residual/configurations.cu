// Which configurations of the int8 inverted residual kernel run a block fast: a model of what takes time. README.md
// says what it is fitted to.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "kernels/common/specialised_variants.h"
#include "kernels/int8_inverted_residual/host.h"

namespace mobicuda::kernels::int8_block {
namespace {

using Params = Int8InvertedResidualParams;

constexpr int kMostWarps = 24;  // of a block
constexpr int kMostBlocks = 8;  // of an SM, and of a cluster

/// Registers that a thread takes where it may: for a unit of 16 pixels and 32 output channels, and for all else.
constexpr int kRegistersOfUnit = 16;
constexpr int kOtherRegisters = 96;
constexpr int kMostRegisters = 255;

constexpr int registers_of(const Sizes& s) { return kOtherRegisters + s.my_units * kRegistersOfUnit; }

/// That a thread may have for all blocks to be on an SM at once.
constexpr int register_limit(const Config& c) {
  constexpr int kOfSm = 65536;
  return std::min(kMostRegisters, kOfSm / (c.warps * 32 * c.min_blocks) / 8 * 8);
}

/// Share of the SMs that clusters of 1, 2, ... blocks find beside each other; larger ones as the last.
constexpr double kSmsOfClusters[kMostBlocks] = {1, 1, 0.9, 0.9, 0.85, 0.8, 0.8, 0.8};

/// With `resident` blocks on each SM, from their start to their end, in cycles.
double round_cycles(const Config& c, const Sizes& s, double resident) {
  // Fitted to measurements, all at once: README.md. "Issued": cycles of a scheduler that no other warp has; "late":
  // until a warp's result is there.
  constexpr double kSchedulers = 4;
  constexpr double kExpandIssued = 22;  // 16 pixels and 32 hidden channels
  constexpr double kExpandStepIssued = 43.6;
  constexpr double kSecondCopyIssued = 51;  // of hidden pixels
  constexpr double kExpandLate = 267;       // two times 16 pixels, which are under way together
  constexpr double kExpandStepLate = 14.5;
  constexpr double kFilterIssued = 128.5;  // 16 pixels and 32 hidden channels
  constexpr double kNarrowIssued = 1.1;    // of that, more where rows of 4 pixels meet in banks of shared memory
  constexpr double kFilterLate = 374;
  constexpr double kProjectIssued = 68;  // 16 pixels, 32 hidden and 32 output channels
  constexpr double kProjectLate = 122;
  constexpr double kChunkIssued = 325;
  constexpr double kPatchBytesPerCycle = 7.4;  // with what else a block does for each pixel before it begins
  constexpr double kWeightBytesPerCycle = 132;
  constexpr double kPieceLate = 147.5;                                   // of sums, from one block of a cluster
  const double warps = std::max(1.0, resident * c.warps / kSchedulers);  // of a scheduler
  const int expanded = ceil_div(ceil_div(s.patch_h * s.patch_w, kTile), s.pixel_warps);
  const double filtered = s.my_out_tiles * (s.columns < kOctet ? 1 + kNarrowIssued : 1);
  const double projected = c.parts == 1 ? s.n_groups * s.my_out_tiles : s.my_units * c.parts;
  const double tile_issued = kExpandIssued + kExpandStepIssued * s.k_steps + (c.stride == 1 ? kSecondCopyIssued : 0);
  const double issued =
      warps * (expanded * tile_issued + filtered * kFilterIssued + projected * kProjectIssued + kChunkIssued);
  const double late = ceil_div(expanded, 2) * (kExpandLate + kExpandStepLate * s.k_steps) +
                      s.my_out_tiles * kFilterLate + projected * kProjectLate;
  const double chunk = std::sqrt(std::hypot(issued * issued, late * late));  // little more than the larger one
  const double patch = static_cast<double>(s.patch_h) * s.patch_w * s.in_pitch / kPatchBytesPerCycle;
  const double weights = static_cast<double>(s.packed_bytes) / c.cluster / kWeightBytesPerCycle;
  const double exchange = c.cluster > 1 ? kPieceLate * s.my_pieces * c.cluster / c.warps : 0;
  return s.chunks * chunk + resident * (patch + weights) + exchange;
}

double cycles(const Config& c, const Sizes& s, const Params& p, const DeviceTraits& gpu) {
  constexpr double kLaunch = 1536;  // from one kernel's last block to the next one's first, and back
  constexpr double kBlock = 1000;   // to begin a block on each SM, all in all
  constexpr double kCrowded = 726;  // where the next launch's blocks find no room beside this one's
  constexpr double kRounding = 1e-9;
  const auto tiles = static_cast<double>(tiles_of(c, p));
  const double at_once = std::max(
      1.0,
      std::floor(gpu.multiprocessors * kSmsOfClusters[std::min(c.cluster, kMostBlocks) - 1] * c.min_blocks / c.cluster +
                 kRounding));
  const double rounds = std::floor(tiles / at_once);
  double rest = (tiles - rounds * at_once) * c.cluster / gpu.multiprocessors;  // blocks of an SM
  rest = std::min<double>(c.cluster > 1 ? std::max(rest, 1.0) : std::ceil(rest - kRounding), c.min_blocks);
  const bool is_whole = tiles == rounds * at_once;
  const bool crowded = 2 * tiles > at_once;
  return kLaunch + (crowded ? kCrowded : 0) + kBlock * tiles * c.cluster / gpu.multiprocessors +
         rounds * round_cycles(c, s, c.min_blocks) + (is_whole ? 0 : round_cycles(c, s, rest));
}

/// Sizes of tiles that cut an extent into equal ones, from `least` on, the largest first.
std::vector<int> cuts(int extent, int least) {
  std::vector<int> found;
  for (int size = std::min(extent, kTile); size >= std::min(extent, least); --size) {
    if (ceil_div(extent, ceil_div(extent, size)) == size) found.push_back(size);
  }
  return found;
}

/// As many blocks of an SM as registers and shared memory allow, then more, for which a thread lacks a few registers.
std::vector<int> residents(Config c, const Sizes& s, const DeviceTraits& gpu) {
  constexpr int kTolerated = 40;
  const auto shared = static_cast<std::size_t>(s.shared_bytes) + gpu.reserved_shared_bytes;
  std::vector<int> found;
  if (registers_of(s) > kMostRegisters) return found;
  for (c.min_blocks = kMostBlocks; c.min_blocks > 0; --c.min_blocks) {
    if (shared * static_cast<std::size_t>(c.min_blocks) > gpu.shared_bytes_per_multiprocessor) continue;
    const int missing = registers_of(s) - register_limit(c);
    if (missing <= kTolerated) found.insert(found.begin(), c.min_blocks);
    if (missing <= 0) break;
  }
  return found;
}

struct Candidate {
  Config config;
  double cycles;
};

/// Tiles and a cluster in the way of sharing warps that is expected to be the fastest; nothing where none runs.
std::optional<Candidate> best_of(Config c, const Params& p, const DeviceTraits& gpu) {
  std::optional<Candidate> best;
  const int own = ceil_div(ceil_div(p.c_hidden, kSlice), c.cluster);  // slices of a block
  const Sizes tile = sizes_of(c);
  // More warps would have no work: 16 outputs each, or 16 pixels of x.
  const int most = std::max(tile.out_tiles, ceil_div(tile.patch_h * tile.patch_w, kTile));
  for (c.parts = 1; c.parts <= std::min(own, kMostWarps); ++c.parts) {
    if (c.parts > 1 && ceil_div(own, c.parts) == ceil_div(own, c.parts - 1)) continue;  // no fewer chunks
    for (int pixel_warps = 1; pixel_warps <= std::min(most, kMostWarps / c.parts); ++pixel_warps) {
      c.warps = pixel_warps * c.parts;
      c.min_blocks = 1;
      if (!is_valid(c) || !supports(c, p, gpu)) continue;
      const Sizes s = sizes_of(c);
      for (const int resident : residents(c, s, gpu)) {
        c.min_blocks = resident;
        const double expected = cycles(c, s, p, gpu);
        if (!best || expected < best->cycles) best = Candidate{c, expected};
      }
    }
  }
  return best;
}

}  // namespace

std::int64_t tiles_of(const Config& config, const Params& p) {
  return std::int64_t{std::max(p.n, 1)} * ceil_div(p.out_h, config.tile_h) * ceil_div(p.out_w, config.tile_w);
}

bool supports(const Config& config, const Params& p, const DeviceTraits& gpu) {
  return gpu.code >= oldest_of(config) && config.cluster <= gpu.large_cluster_blocks &&
         static_cast<std::size_t>(sizes_of(config).shared_bytes) <= gpu.shared_bytes_per_block &&
         config.stride == p.stride && config.c_in == p.c_in && config.c_hidden == p.c_hidden &&
         config.c_out == p.c_out && tiles_of(config, p) * config.cluster <= std::numeric_limits<std::int32_t>::max();
}

double expected_cycles(const Config& config, const Params& p, const DeviceTraits& gpu) {
  return cycles(config, sizes_of(config), p, gpu);
}

std::vector<Config> configurations(const Params& p, const DeviceTraits& gpu) {
  constexpr std::size_t kMost = 6;
  constexpr int kLeastColumns = 3;
  if (std::max({p.c_in, p.c_hidden, p.c_out}) > kMostConfigValue) return {};
  std::vector<Candidate> ranked;
  const int slices = ceil_div(p.c_hidden, kSlice);
  for (const int tile_h : cuts(p.out_h, 1)) {
    for (const int tile_w : cuts(p.out_w, kLeastColumns)) {
      for (int cluster = 1; cluster <= std::min({kMostBlocks, slices, gpu.large_cluster_blocks}); ++cluster) {
        if (ceil_div(slices, cluster) * (cluster - 1) >= slices) continue;  // a block without channels
        const Config config{p.stride, p.c_in, p.c_hidden, p.c_out, tile_h, tile_w, 1, 1, 1, cluster};
        if (const auto best = best_of(config, p, gpu)) ranked.push_back(*best);
      }
    }
  }
  std::ranges::stable_sort(ranked, [](const Candidate& a, const Candidate& b) { return a.cycles < b.cycles; });
  if (ranked.size() > kMost) ranked.resize(kMost);
  std::vector<Config> found;
  for (const Candidate& candidate : ranked) found.push_back(candidate.config);
  return found;
}

}  // namespace mobicuda::kernels::int8_block
