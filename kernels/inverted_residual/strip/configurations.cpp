// Which configurations of the strip kernel are worth trying for a block, by the model of README.md.

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/strip/host.h"

namespace mobicuda::kernels::inverted_strip {
namespace {

// What a scheduler takes for a pair of strips, in cycles: fitted to the measurements in README.md.
constexpr double kMma16 = 1.27 * 6.2;  // an mma.sync of k = 16
constexpr double kMma8 = 1.27 * 4.0;
constexpr double kInstruction = 0.59;
constexpr double kFillRate = 21;  // bytes of patches into an SM a cycle
constexpr double kAlone = 1.2;    // times as long, of a warp alone on its scheduler

constexpr int kSchedulers = 4;
constexpr std::size_t kMost = 6;  // configurations
constexpr double kWorst = 1.4;    // times the best: what is expected to be slower is not worth measuring
constexpr int kWarps[] = {4, 8, 7, 6, 5, 12, 16, 3, 2};  // in this order where they make no difference

/// What a warp does for a pair of strips and 16 hidden channels.
struct UnitWork {
  int mma16, mma8;
  int instructions;  ///< of all kinds
};

UnitWork unit_work(const Config& c, const Sizes& s) {
  const int steps16 = s.expands ? c.c_in / 16 : 0;
  const int steps8 = s.expands ? c.c_in / 8 % 2 : 0;
  const int hidden = s.patch_h * s.classes * 2;  // operands of hidden pixels, of 8 channels
  const int filtered = c.rows * 2 * 2;
  UnitWork work{};
  work.mma16 = hidden * steps16 + filtered * 3 + c.rows * 2 * s.results;
  work.mma8 = hidden * steps8 + filtered * 3;
  const int rounded = (s.expands ? hidden * 2 : 0) + filtered * 2;  // words: each is converted and clipped
  const int shuffled = s.patch_h * (c.stride == 1 ? 8 : 4);
  const int loaded = s.patch_h * (s.classes * (c.c_in / 16) + s.classes / 2 * (c.c_in / 8 % 2)) + 8 + s.tap_vectors +
                     ceil_div(s.expand_words, 4) + ceil_div(s.project_words, 4);
  constexpr int kOthers = 35;
  work.instructions = work.mma16 + work.mma8 + 2 * rounded + shuffled + loaded + kOthers;
  return work;
}

/// Instructions of a warp for a pair of strips beside its units: places, copies, biases, results.
int other_instructions(const Config& c, const Sizes& s) {
  return 300 + 50 * (c.c_in / 8) + c.rows * (10 + 20 * s.results);
}

/// Instructions for a unit of a warp that has fewer registers than it would use; 0 if it has enough.
double spill_instructions(const Config& c, const Sizes& s) {
  constexpr int kRegisters = 65536;  // of an SM
  constexpr int kMostRegisters = 255;
  const int most = std::min(kMostRegisters, kRegisters / (s.threads * c.blocks) / 8 * 8);
  const int sums = c.rows * s.results * 8;
  // A row of x, weights, addresses; depthwise sums of as many rows of outputs as a hidden row has a part in.
  const int used = c.stride == 1 ? 110 + 5 * (c.c_in / 8) + 16 * std::min(c.rows, 3)
                                 : 90 + 14 * (c.c_in / 8) + 16 * std::min(c.rows, 2);
  const double missing = std::max(0, used + sums - most);
  return missing * missing / 60;
}

/// The most pairs that a scheduler gets, whose warps are every fourth of a block. `pairs` is of a block.
std::int64_t busiest_scheduler(std::int64_t pairs, int warps) {
  const std::int64_t rounds = pairs / warps;
  const std::int64_t left = pairs % warps;
  return rounds * ceil_div(warps, kSchedulers) + (left + kSchedulers - 1) / kSchedulers;
}

/// Pairs of strips, of an SM at most.
std::int64_t pairs_of(int rows, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  const std::int64_t strips = std::int64_t{std::max(p.n, 1)} * ceil_div(p.out_h, rows) * ceil_div(p.out_w, kColumns);
  const std::int64_t multiprocessors = std::max(gpu.multiprocessors, 1);
  return ((strips + 1) / 2 + multiprocessors - 1) / multiprocessors;
}

/// Cycles, from the first patch on. `pairs` is of an SM.
double cycles(const Config& c, std::int64_t pairs) {
  const Sizes s = sizes_of(c);
  const UnitWork unit = unit_work(c, s);
  const double unit_cycles =
      unit.mma16 * kMma16 + unit.mma8 * kMma8 + (unit.instructions + spill_instructions(c, s)) * kInstruction;
  const double pair_cycles = s.units * unit_cycles + other_instructions(c, s) * kInstruction;
  // The first patches are waited for; all of them, where there is one buffer.
  const std::int64_t waited_for = s.buffers == 1 ? pairs : std::min<std::int64_t>(pairs, c.warps);
  return static_cast<double>(busiest_scheduler(pairs, c.warps)) * pair_cycles *
             (c.warps < 2 * kSchedulers && pairs > c.warps ? kAlone : 1.0) +
         static_cast<double>(waited_for) * s.patch_bytes / kFillRate;
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& params, const DeviceTraits& gpu) {
  struct Candidate {
    Config config;
    double cycles;
  };
  std::vector<Candidate> candidates;
  for (int rows = 1; rows <= kMostRows; ++rows) {
    const std::int64_t pairs = pairs_of(rows, params, gpu);
    for (const int warps : kWarps) {
      const Config config{params.c_in,
                          params.c_hidden,
                          params.c_out,
                          params.stride,
                          rows,
                          warps,
                          1,
                          inverted_host::hard_swishes(params) ? 1 : 0};
      const bool idle = warps > kSchedulers && warps >= pairs + kSchedulers;
      if (!idle && is_valid(config) && supports(config, params, gpu)) {
        candidates.push_back({config, cycles(config, pairs)});
      }
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cycles < b.cycles; });
  // Few of the same rows, so that those who measure see what the model may have missed; and none that differs from the
  // one before in warps without pairs.
  constexpr int kMostOfRows = 2;
  std::array<int, kMostRows + 1> of_rows{};
  std::vector<Config> best;
  double last = 0.0;
  for (const Candidate& candidate : candidates) {
    if (best.size() == kMost || candidate.cycles > kWorst * candidates.front().cycles) break;
    if (candidate.cycles == last) continue;
    int& taken = of_rows[static_cast<std::size_t>(candidate.config.rows)];
    if (taken == kMostOfRows) continue;
    ++taken;
    best.push_back(candidate.config);
    last = candidate.cycles;
  }
  return best;
}

}  // namespace mobicuda::kernels::inverted_strip
