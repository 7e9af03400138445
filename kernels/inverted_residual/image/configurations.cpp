// Which configurations of the image kernels run a block fast: a model of what takes time. README.md says what it is
// fitted to.

#include <algorithm>
#include <cstdint>

#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/image/host.h"
#include "kernels/inverted_residual/specialised_family.h"

namespace mobicuda::kernels::inverted_image {
namespace {

// Fitted to measurements: README.md.
constexpr double kCyclesPerMicrosecond = 1755;
constexpr double kMmaCycles = 7.28;           // of a scheduler, for 16x8x16
constexpr double kBarrierCycles = 586;        // between two chunks, for each 4 warps; other blocks of the SM fill them
constexpr double kStartMicroseconds = 0.143;  // of a block, with its end
constexpr double kBytesPerMicrosecond = 24.4e3;         // of x and y, to or from an SM
constexpr double kWeightBytesPerMicrosecond = 126.8e3;  // into an SM
constexpr double kSendMicroseconds = 0.285;             // sums to one other block of a cluster
// Share of the SMs that clusters of 1, 2, 4 and 8 blocks find beside each other.
constexpr double kSmsOfClusters[] = {1, 1, 0.91, 0.85};
// Registers of a thread for 16 hidden channels of a chunk, and beside x, sums and these, where the stride is 1 and 2.
constexpr int kRegistersOfUnit = 10;
constexpr int kOtherRegisters[] = {56, 46};

constexpr int kSchedulers = 4;  // of an SM

/// Registers that a thread may have for all blocks to be on an SM at once.
constexpr int register_limit(const Config& c) {
  constexpr int kOfScheduler = 512;  // of each lane
  constexpr int kMost = 255;
  return std::min(kMost, kOfScheduler / ceil_div(c.warps * c.min_blocks, kSchedulers) / 8 * 8);
}

/// That a thread takes, about.
constexpr int registers_of(const Config& c) {
  const Sizes s = sizes_of(c);
  const int rows = c.stride == 1 ? kRowsOfWarp : 1;  // of sums
  const int x = c.staged != 0 ? 16 : kRowsOfWarp * s.in_steps * 4;
  return rows * s.out_strips * 4 + x + s.units * kRegistersOfUnit + kOtherRegisters[c.stride - 1];
}

/// Whether x finds no room in registers, however few warps are on an SM.
constexpr bool is_wide(Config c) {
  c.staged = 0;
  c.chunk = 2 * kUnit;
  c.min_blocks = 1;
  return registers_of(c) > register_limit(c);
}

/// What a warp does for 16 hidden channels.
struct Work {
  double mmas;      ///< of 16x8x16; half as deep ones are half
  double accesses;  ///< to shared memory, of 128 bytes
};

constexpr Work work_of(const Config& c) {
  constexpr double kFragment = kFragmentBytes / 128.0;
  const Sizes s = sizes_of(c);
  const double share = c.stride == 1 ? 1 : 0.5;  // of the units that a warp filters and projects
  const double rows = c.stride == 1 ? kRowsOfWarp : 1;
  Work work{};
  work.mmas = 2.0 * kRowsOfWarp * s.in_steps + share * rows * s.out_strips;
  work.accesses = kFragment * (s.in_steps + share * s.out_strips / 2);
  if (c.staged != 0) work.accesses += kFragment * kRowsOfWarp * s.in_steps / (s.units % 2 == 0 ? 2 : 1);
  // Two groups of 8 channels: taps, biases of depthwise and of expand, hidden pixels there and back.
  const double windows = c.stride == 1 ? 5 : 4.5;
  work.mmas += share * 2 * (c.stride == 1 ? 9 : 4.5);
  work.accesses += share * 2 * (windows * kFragment + 5 + 2) + 2 * (2 + kFragment);
  return work;
}

/// With `resident` blocks on each SM, from their start to their end.
double round_microseconds(const Config& c, int resident) {
  const Sizes s = sizes_of(c);
  const Work work = work_of(c);
  const int warps = resident * c.warps;
  const double unit = std::max(work.mmas * kMmaCycles * ceil_div(warps, kSchedulers), work.accesses * warps);
  const double barrier = kBarrierCycles * ceil_div(c.warps, kSchedulers) / resident;
  const double cycles = s.chunks * (s.units * unit + barrier);
  const int channels = c.c_in + c.c_out / (c.stride * c.stride) / c.blocks;
  const double bytes = warps * kRowsOfWarp * kColumns * 2.0 * channels;
  const double weight_bytes = static_cast<double>(resident) * s.packed_bytes / c.blocks;
  return kStartMicroseconds + bytes / kBytesPerMicrosecond + weight_bytes / kWeightBytesPerMicrosecond +
         cycles / kCyclesPerMicrosecond + (c.blocks - 1) * kSendMicroseconds;
}

double microseconds(const Config& c, int images, int multiprocessors) {
  int cluster = 0;
  while (1 << cluster < c.blocks) ++cluster;
  const auto sms = static_cast<std::int64_t>(std::max(1.0, multiprocessors * kSmsOfClusters[cluster]));
  const std::int64_t blocks = std::max<std::int64_t>(blocks_of(c, images), 1);
  const std::int64_t at_once = sms * c.min_blocks;
  const auto rest = static_cast<int>((blocks % at_once + sms - 1) / sms);
  const std::int64_t full = blocks / at_once;
  return static_cast<double>(full) * round_microseconds(c, c.min_blocks) + (rest > 0 ? round_microseconds(c, rest) : 0);
}

struct Candidate {
  Config config;
  double microseconds;
};

/// Whether blocks have the same tiles and clusters.
bool cuts_alike(const Config& a, const Config& b) {
  return a.blocks == b.blocks && a.warps == b.warps && a.columns == b.columns;
}

}  // namespace

std::string kernel_expression(const Config& config) {
  return inverted_host::expression(
      "mobicuda::kernels::inverted_image::", config.stride == 1 ? "image_kernel" : "down_kernel", config);
}

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr std::size_t kMost = 6;
  constexpr int kMostWarpsOfSm = 12;  // 168 registers each
  std::vector<Candidate> best;        // of each way to cut the work
  const auto consider = [&](const Config& config) {
    if (!is_valid(config) || (config.staged != 0 && !is_wide(config))) return;
    if (registers_of(config) > register_limit(config) || !supports(config, p, gpu)) return;
    const Candidate candidate{config, microseconds(config, p.n, gpu.multiprocessors)};
    const auto like = std::find_if(best.begin(), best.end(),
                                   [&](const Candidate& other) { return cuts_alike(other.config, config); });
    if (like == best.end()) {
      best.push_back(candidate);
    } else if (candidate.microseconds < like->microseconds) {
      *like = candidate;
    }
  };
  for (const int blocks : {1, 2, 4, 8}) {
    for (const int columns : {kColumns, kColumns / 2}) {
      if (columns < kColumns && tiles_of(p.w, columns) >= 2 * tiles_of(p.w, kColumns)) continue;  // no less work
      for (int warps = 2; warps <= 8; ++warps) {
        for (int min_blocks = 1; min_blocks * warps <= kMostWarpsOfSm; ++min_blocks) {
          for (const int chunk : {64, 48, 32, 16}) {
            for (const int staged : {0, 1}) {
              consider({p.c_in, p.c_hidden, p.c_out, p.stride, blocks, chunk, p.h, p.w, warps, columns, min_blocks,
                        staged, inverted_host::hard_swishes(p) ? 1 : 0});
            }
          }
        }
      }
    }
  }
  std::stable_sort(best.begin(), best.end(),
                   [](const Candidate& a, const Candidate& b) { return a.microseconds < b.microseconds; });
  if (best.size() > kMost) best.resize(kMost);
  std::vector<Config> configs;
  for (const Candidate& candidate : best) configs.push_back(candidate.config);
  return configs;
}

}  // namespace mobicuda::kernels::inverted_image
