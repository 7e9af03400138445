// Which configurations of the early kernel a block may run, ranked by a model: README.md.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/inverted_residual/simt_early/host.h"

namespace mobicuda::kernels::inverted_simt_early {
namespace {

// Cycles, unless they say otherwise. README.md has what they are from.
constexpr double kLaunch = 1320;       // from a kernel's last block to the next one's first instruction after its wait
constexpr double kPatch = 790;         // patch and its barrier
constexpr double kEnd = 320;           // barriers, finish
constexpr double kExchange = 270;      // sums on their way to other blocks
constexpr double kItem = 35;           // a pair of outputs of a thread in finish, after the first
constexpr double kExpandReload = 1.8;  // an FFMA of expand whose value is not there from the one before, beside its own
constexpr double kProjectReload = 3;   // the same of project
constexpr double kDepthwise = 1.15;    // an instruction of depthwise
constexpr double kChained = 4;         // an FFMA after one that it adds to
constexpr double kStepLatency = 70;    // of two pixels in a 1x1 convolution: reads, clip, store
constexpr double kShuffle = 29;        // an exchange between lanes, with its addition
constexpr double kDepthwiseLatency = 80;
constexpr double kMissing = 15;        // a register that a thread lacks
constexpr double kBytesPerCycle = 81;  // of weights from L2 into an SM
constexpr double kHidden = 270;        // of the time in which weights arrive, while the kernel before runs
// Share of the SMs that clusters of 1, 2, 4 and 8 blocks find beside each other.
constexpr double kSmsOfClusters[] = {1, 1, 0.91, 0.85};
// Registers of a thread beside weights, and the sums of two pixels.
constexpr int kOtherRegisters = 32;
constexpr int kTolerated = 8;  // registers that a thread may lack

constexpr int kSchedulers = 4;        // of an SM
constexpr int kRegisterFile = 65536;  // of an SM
constexpr int kMostRegisters = 255;   // of a thread
constexpr int kRegisterUnit = 8;      // in which a thread's registers are given
constexpr int kMostThreads = 1024;    // of an SM, that a configuration is made for

/// Registers that a thread wants: the weights of project are there while expand or depthwise runs.
int registers_of(const Config& c, const Sizes& s) {
  const int expand = s.expand_k * c.expand_channels + s.expand_own + kStep * c.expand_channels;
  const int depthwise = 2 * (kTaps + 1) + 2 * c.rows * s.strip_columns;
  return kOtherRegisters + s.project_k * c.project_channels + std::max(expand, depthwise);
}

/// That a thread of so many blocks on an SM may have.
int register_limit(int threads, int blocks) {
  return std::min(kRegisterFile / (threads * blocks) / kRegisterUnit * kRegisterUnit, kMostRegisters);
}

/// The most blocks of so many threads on an SM that have the registers; 0: none has.
int blocks_with(int registers, int threads) {
  for (int blocks = kMostThreads / threads; blocks > 0; --blocks) {
    if (registers - kTolerated <= register_limit(threads, blocks)) return blocks;
  }
  return 0;
}

double log_2(int power) { return std::log2(static_cast<double>(power)); }

/// Of a stage of a 1x1 convolution: `pixels` of a unit, each of so many clocks, by `lanes` threads of a block, of which
/// `resident` are on the SM; `latency` of a step of kStep pixels.
double pointwise(int pixels, double clocks, int lanes, int resident, double latency) {
  const int warps = ceil_div(resident * ceil_div(lanes, kWarp), kSchedulers);  // of a scheduler
  return std::max(pixels * clocks * warps, ceil_div(pixels, kStep) * latency);
}

/// From the wait to the end, with `resident` blocks on each SM.
double round_cycles(const Config& c, const Sizes& s, int resident) {
  const double expand_products = s.expand_k * c.expand_channels;
  const int expand_reads = s.expand_k / kQuad;
  const double expand_others = 5 * s.expand_own + expand_reads + c.expand_channels + 2;
  const double expand_clocks = expand_products * (1 + kExpandReload / c.expand_channels) + expand_others;
  const double expand = pointwise(s.expand_pixels, expand_clocks, s.pixel_lanes * s.expand_groups, resident,
                                  kStepLatency + s.expand_k * kChained + kShuffle);

  const int outputs = c.rows * s.strip_columns;
  const int reads = s.patch_h * ((s.strip_columns - 1) * c.stride + 3);
  const double depthwise_clocks = kDepthwise * (kTaps + 1 + reads + 2 * kTaps * outputs + 5 * outputs);
  const int depthwise_warps = ceil_div(resident * ceil_div(s.pairs * s.strips, kWarp), kSchedulers);
  const double depthwise = std::max(depthwise_clocks * depthwise_warps, depthwise_clocks + kDepthwiseLatency);

  const double exchanges = log_2(c.project_lanes);
  const double project_products = s.project_k * c.project_channels;
  const double shuffled = c.project_channels - 1 + log_2(c.project_lanes / c.project_channels);
  const double project_clocks = project_products * (1 + kProjectReload / c.project_channels) + 2 * shuffled +
                                ceil_div(s.project_k, kQuad) + c.project_channels + 1;
  const double project =
      pointwise(s.project_pixels, project_clocks, s.project_columns * s.project_groups * c.project_lanes, resident,
                kStepLatency + s.project_k * kChained + exchanges * kShuffle);

  const int items = ceil_div(s.out_pixels * s.owned / 2, c.threads);
  const double exchange = c.blocks > 1 ? kExchange : 0;
  return kPatch + expand + depthwise + project + exchange + kEnd + resident * (items - 1) * kItem;
}

/// Cycles that a launch is expected to take.
double cycles(const Config& c, const Sizes& s, int registers, const InvertedResidualParams& p,
              const DeviceTraits& gpu) {
  int cluster = 0;
  while (1 << cluster < c.blocks) ++cluster;
  const auto sms = static_cast<std::int64_t>(std::max(1.0, gpu.multiprocessors * kSmsOfClusters[cluster]));
  const std::int64_t blocks = std::max<std::int64_t>(tiles_of(c, p) * c.blocks, 1);
  const auto by_memory = static_cast<int>(gpu.shared_bytes_per_multiprocessor /
                                          (static_cast<std::size_t>(s.shared_bytes) + gpu.reserved_shared_bytes));
  const int resident = std::max(1, std::min(c.min_blocks, by_memory));
  const std::int64_t full = blocks / (sms * resident);
  const auto rest = static_cast<int>((blocks % (sms * resident) + sms - 1) / sms);  // blocks of an SM in the last round
  const double weights = s.slice_floats * 4.0 / kBytesPerCycle;
  const int missing = std::max(0, registers - register_limit(c.threads, c.min_blocks));
  const auto round = [&](int here) { return here * weights + missing * kMissing + round_cycles(c, s, here); };
  const double rounds = static_cast<double>(full) * round(resident) + (rest > 0 ? round(rest) : 0);
  return kLaunch + rounds - std::min(kHidden, weights);
}

struct Candidate {
  Config config;
  double cycles;
};

/// The smallest extents of a tile, up to `most`, that cut `extent` into different numbers of tiles.
std::vector<int> extents(int extent, int most) {
  std::vector<int> found;
  for (int size = 1; size <= std::min(extent, most); ++size) {
    if (size == 1 || ceil_div(extent, size) < ceil_div(extent, size - 1)) found.push_back(size);
  }
  return found;
}

/// consider(candidate), for all that the shape may run.
template <class Consider>
void for_each_candidate(const InvertedResidualParams& p, const DeviceTraits& gpu, const Consider& consider) {
  constexpr int kMostRows = 8;
  constexpr int kMostColumns = 16;
  constexpr int kMostRounds = 8;  // of one block on each SM: beyond, weights in registers are not what counts
  constexpr int kLeast = 4;       // a fourth of the SMs at least have a block, unless tiles are single pixels
  const std::vector<int> rows = extents(p.out_h, kMostRows);
  const std::vector<int> columns = extents(p.out_w, kMostColumns);
  const auto with_tile = [&](Config c, int height, int width) {
    c.rows = height;
    c.columns = width;
    const std::int64_t blocks = tiles_of(c, p) * c.blocks;
    if (blocks > std::int64_t{kMostRounds} * gpu.multiprocessors) return;
    if (blocks * kLeast < gpu.multiprocessors && height * width > 1) return;
    if (!is_valid(c)) return;
    const Sizes s = sizes_of(c);
    const int registers = registers_of(c, s);
    c.min_blocks = blocks_with(registers, c.threads);
    if (c.min_blocks == 0 || !supports(c, p, gpu)) return;
    consider(Candidate{c, cycles(c, s, registers, p, gpu)});
  };
  for (const int blocks : {1, 2, 4, 8}) {
    for (const int threads : {128, 256, 384, 512}) {
      for (const int expand_channels : {4, 8, 16}) {
        for (const int lanes : {4, 8, 16}) {
          for (int channels = 4; channels <= lanes; channels *= 2) {
            const Config c{blocks, p.stride,        p.c_in, p.c_hidden, p.c_out, 1,
                           1,      expand_channels, lanes,  channels,   threads, 1};
            for (const int height : rows) {
              for (const int width : columns) with_tile(c, height, width);
            }
          }
        }
      }
    }
  }
}

bool cuts_alike(const Config& a, const Config& b) {
  return a.blocks == b.blocks && a.rows == b.rows && a.columns == b.columns;
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr std::size_t kMost = 6;
  std::vector<Candidate> best;  // of each way to cut the work
  if (p.elem != Elem::F32 || !p.expand) return {};
  for_each_candidate(p, gpu, [&](const Candidate& candidate) {
    const auto like = std::find_if(best.begin(), best.end(),
                                   [&](const Candidate& other) { return cuts_alike(other.config, candidate.config); });
    if (like == best.end()) {
      best.push_back(candidate);
    } else if (candidate.cycles < like->cycles) {
      *like = candidate;
    }
  });
  std::stable_sort(best.begin(), best.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cycles < b.cycles; });
  std::vector<Config> configs;
  for (const Candidate& candidate : best) {
    if (configs.size() < kMost) configs.push_back(candidate.config);
  }
  return configs;
}

}  // namespace mobicuda::kernels::inverted_simt_early
