// Which configurations of the kernel a block may run, ranked by a model: README.md.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/common/specialised_variants.h"
#include "kernels/inverted_residual/simt/host.h"

namespace mobicuda::kernels::inverted_simt {
namespace {

// Fitted to measurements, all at once: README.md. Cycles, where no other unit is told. A slot is a cycle of a
// scheduler in which it issues an instruction of a warp.
constexpr double kFfma = 1;       // slots: the register file gives two operands in most of them
constexpr double kLoad = 1;       // slots of a load or store of shared memory
constexpr double kElement = 1.3;  // slots of bias and clip of a hidden value
constexpr double kLaunch = 2100;  // from one kernel's last block to the next one's, patch and first weights included
constexpr double kTile = 500;     // of a block: patch, first weights, stores
constexpr double kStage = 40;     // a barrier, and what a stage does before its first product
constexpr double kStall = 65;     // in which a warp waits for the operands of four channels
constexpr double kUneven = 0.85;  // blocks that an SM has in the last round, more than an even share
constexpr double kBytesPerCycle = 2000;  // of x and y, all SMs
constexpr double kWeightsPerCycle = 55;  // bytes of weights into an SM

constexpr std::size_t kMost = 6;     // configurations of an answer
constexpr int kRegisters = 65536;    // of an SM
constexpr int kMostRegisters = 255;  // of a thread
constexpr int kRegisterUnit = 8;     // in which a thread's registers are given
constexpr int kSchedulers = 4;
constexpr int kMostTile = 16;  // rows or columns
constexpr int kMostPixels = 256;
constexpr int kFewestWarps = 3;
constexpr int kMostWarps = 16;
constexpr int kEvenWarps = 8;       // from where schedulers shall have as many each
constexpr int kMostWarpsOfSm = 24;  // more have too few registers each
constexpr int kMostBlocks = 6;      // of an SM

/// What a stage costs in one chunk.
struct Cost {
  double slots;   ///< of all warps
  double shared;  ///< cycles of shared memory, which moves 128 bytes in each
  double alone;   ///< cycles of a block that has the SM to itself
};

/// Of a warp, in each of `rounds` of `warps` warps. Other warps of a scheduler fill a warp's stalls.
struct Work {
  double slots, shared, stall;
};

Cost cost_of(const Work& work, int warps, double rounds) {
  const double round = std::max(work.slots * ceil_div(warps, kSchedulers), work.slots + work.stall);
  return {work.slots * warps * rounds, work.shared * warps * rounds, round * std::ceil(rounds) + kStage};
}

Cost expand_cost(const Config& c, const Sizes& s) {
  if (!expands(c)) return {};
  const int quads = c.c_in / 4;
  const int rows = c.expand_rows;
  const double products = kFfma * 4 * kExpandColumns * rows + kLoad * (rows + kExpandColumns) + 4;
  const double stores = rows * (kElement * kExpandColumns + kLoad * 2 + 10) + 20;
  const double conflicts = s.hidden_pixel % 16 == 0 ? 2 : 1;
  const double shared = quads * (2.0 * rows + kExpandColumns) + rows * 2 * 4 * conflicts;
  const int groups = ceil_div(s.patch_pixels, kExpandLanes * rows);  // of pixels
  const int warps = std::min(groups, c.warps / s.units) * s.units;
  return cost_of({quads * products + stores, shared, quads * kStall}, warps,
                 static_cast<double>(groups) * s.units / warps);
}

Cost depthwise_cost(const Config& c, const Sizes& s) {
  const int pixels = c.strip_h * c.strip_w;
  const int reads = ((c.strip_h - 1) * c.stride + 3) * ((c.strip_w - 1) * c.stride + 3);
  const int loads = reads + kTaps + 1 + pixels;
  const double slots = kFfma * kTaps * pixels * c.strip_c + kLoad * loads + kElement * pixels * c.strip_c + 40;
  return cost_of({slots, static_cast<double>(loads) * c.strip_c, 2 * kStall}, ceil_div(s.strip_items, 32), 1);
}

Cost project_cost(const Config& c, const Sizes& s) {
  const int quads = c.chunk / c.project_k / 4;
  const int loads = c.project_rows + 4 * ceil_div(c.project_columns, 4);
  const double products = kFfma * 4 * c.project_rows * c.project_columns + kLoad * loads + 4;
  return cost_of({quads * products + 10, static_cast<double>(quads) * loads, quads * kStall},
                 c.project_m * s.project_n * c.project_k, 1);
}

/// Of what a tile does once.
Cost tile_cost(const Config& c, const Sizes& s) {
  constexpr double kPatchSlots = 12;  // of 16 bytes for each lane
  constexpr double kOutputSlots = 25;
  const double outputs = s.out_pixels * c.c_out / 128.0;
  double slots = kPatchSlots * s.patch_pixels * c.c_in / 128.0 + kOutputSlots * outputs;
  if (c.project_k > 1) slots += 4 * kLoad * outputs * (2 * c.project_k);
  return {slots, 0, slots / std::min(c.warps, kSchedulers) + kTile};
}

/// Registers of a thread without which nvcc 13.0 spills more than a few for sm_90.
int registers_of(const Config& c) {
  constexpr int kOthers = 24;
  const int sums = is_one_chunk(c) ? 0 : c.project_rows * c.project_columns;  // that stay over all chunks
  const int expand = c.expand_rows * (kExpandColumns + 6) + 2 * kExpandColumns;
  const int outputs = c.strip_h * c.strip_w * c.strip_c;
  const int depthwise = outputs * 4 / 3 + ((c.strip_w - 1) * c.stride + 3 + kTaps) * c.strip_c;
  const int project = c.project_rows * (c.project_columns + 4) + 2 * c.project_columns;
  return kOthers + std::max(project, sums + std::max(expand, depthwise));
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
  const int chunks = c.c_hidden / c.chunk;
  const double weights = static_cast<double>(s.front_floats + s.project_floats) * sizeof(float);  // of a chunk
  constexpr double kCopySlots = 4;  // of 16 bytes for each lane
  Cost one = tile_cost(c, s);
  for (const Cost& stage : {expand_cost(c, s), depthwise_cost(c, s), project_cost(c, s)}) {
    one.slots += chunks * stage.slots;
    one.shared += chunks * stage.shared;
    one.alone += chunks * stage.alone;
  }
  one.slots += chunks * kCopySlots * weights / 512;
  const auto round = [&](double blocks) {  // side by side
    const double issuing = std::max(one.slots / kSchedulers, chunks * weights / kWeightsPerCycle);
    return overlapped(blocks * overlapped(issuing, one.shared), one.alone);
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

/// Pads of the hidden tensor. A half-warp of depthwise reads 64 bytes of two strips, which are in different banks where
/// the strips are an odd number of 64 bytes apart.
void set_pads(Config& c) {
  constexpr int kBanks = 32;
  constexpr int kWideChunk = 96;  // from where a pad of 8 is little
  const auto apart = [](int floats) { return floats % kBanks == kBanks / 2; };
  c.hidden_pixel_pad = c.hidden_row_pad = 0;
  const int strips_y = c.tile_h / c.strip_h;
  if (strips_y == 1 && c.tile_w > c.strip_w) {
    for (int pad = 0; pad < kBanks; pad += 4) {
      c.hidden_pixel_pad = pad;
      if (apart(c.strip_w * c.stride * (c.chunk + pad))) return;
    }
    c.hidden_pixel_pad = 0;
    return;
  }
  // Pixels whose 8 channels a quarter of a warp stores in expand are in different banks.
  if (c.chunk >= kWideChunk) c.hidden_pixel_pad = c.chunk % 16 == 0 ? 8 : 0;
  for (int pad = 0; pad < kBanks; pad += 4) {
    c.hidden_row_pad = pad;
    if (apart(c.strip_h * c.stride * sizes_of(c).hidden_row)) return;
  }
  c.hidden_row_pad = 0;
}

/// The cheapest of what `each` tries; `each` calls its argument for every choice.
template <class Stage, class Each>
bool choose(Config& c, const Stage& stage, const Each& each) {
  double best = std::numeric_limits<double>::infinity();
  Config chosen = c;
  each([&](const Config& tried) {
    if (registers_of(tried) > registers_given(tried)) return;
    const Cost cost = stage(tried, sizes_of(tried));
    const double expected = tried.min_blocks * overlapped(cost.slots / kSchedulers, cost.shared) + cost.alone;
    if (expected < best) {
      best = expected;
      chosen = tried;
    }
  });
  c = chosen;
  return best < std::numeric_limits<double>::infinity();
}

/// Calls use(Config) for every split of project among the warps.
template <class Use>
void each_project(const Config& c, const Use& use) {
  constexpr int kMostSums = 84;  // of a thread
  const int rows = ceil_div(c.tile_h * c.tile_w, kProjectLanesM);
  for (int columns = 2; columns <= 14; columns += 2) {
    const int n = ceil_div(c.c_out, kProjectLanesN * columns);
    if (n * kProjectLanesN * columns * 8 > c.c_out * 9 + 8) continue;  // more than a ninth in vain
    int before = 0;
    for (int m = 1; m * n <= c.warps; ++m) {
      const int of_thread = ceil_div(rows, m);
      if (of_thread == before || of_thread * columns > kMostSums) continue;
      before = of_thread;
      for (int k = 1; m * n * k <= c.warps; ++k) {
        if (c.chunk % (4 * k) != 0) continue;
        Config tried = c;
        tried.project_rows = of_thread;
        tried.project_columns = columns;
        tried.project_m = m;
        tried.project_k = k;
        use(tried);
      }
    }
  }
}

template <class Use>
void each_expand(const Config& c, const Use& use) {
  constexpr int kMostRows = 6;
  for (int rows = 1; rows <= kMostRows; ++rows) {
    Config tried = c;
    tried.expand_rows = rows;
    use(tried);
  }
}

template <class Use>
void each_strip(const Config& c, const Use& use) {
  constexpr int kMostOutputs = 64;
  for (int h = 1; h <= c.tile_h; ++h) {
    for (int w = 1; w <= c.tile_w; ++w) {
      if (c.tile_h % h != 0 || c.tile_w % w != 0) continue;
      for (int channels = 1; channels <= 4 && h * w * channels <= kMostOutputs; channels *= 2) {
        if ((c.tile_h / h) * (c.tile_w / w) * (c.chunk / channels) > 32 * c.warps) continue;
        Config tried = c;
        tried.strip_h = h;
        tried.strip_w = w;
        tried.strip_c = channels;
        use(tried);
      }
    }
  }
}

bool fits(const Config& c, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return is_valid(c) && supports(c, p, gpu) &&
         (shared_bytes(c) + gpu.reserved_shared_bytes) * static_cast<std::size_t>(c.min_blocks) <=
             gpu.shared_bytes_per_multiprocessor;
}

/// With tile, chunk, warps and min_blocks given, the rest.
std::optional<Config> completed(Config c, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  // The smallest of the other stages first, so that registers are left.
  c.expand_rows = p.expand ? 1 : 0;
  c.strip_h = c.strip_w = c.strip_c = 1;
  if (!choose(c, project_cost, [&](const auto& use) { each_project(c, use); })) return {};
  if (!choose(c, depthwise_cost, [&](const auto& use) { each_strip(c, use); })) return {};
  if (p.expand && !choose(c, expand_cost, [&](const auto& use) { each_expand(c, use); })) return {};
  set_pads(c);
  for (const int in_place : {0, 1}) {
    c.in_place = in_place;
    if (fits(c, p, gpu)) return c;
  }
  return {};
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

/// Cycles of the products of a tile, borders included, if every scheduler issued one of a warp in each. Without expand
/// the patch is at least loaded.
double products(int tile_h, int tile_w, const InvertedResidualParams& p) {
  const double patch = ((tile_h - 1) * p.stride + 3) * ((tile_w - 1) * p.stride + 3);
  const double of_hidden = patch * (p.expand ? p.c_in : 1) + static_cast<double>(tile_h) * tile_w * (kTaps + p.c_out);
  return of_hidden * p.c_hidden / (32 * kSchedulers);
}

struct Tile {
  int h, w;
  double cycles;  ///< that a launch takes at least
};

/// Those that take the fewest cycles at least.
std::vector<Tile> tiles_to_try(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr std::size_t kMostTiles = 32;
  std::vector<Tile> tiles;
  for (const int h : tile_sizes(p.out_h)) {
    for (const int w : tile_sizes(p.out_w)) {
      if (h * w > kMostPixels || h > w) continue;
      const double of_sm = std::ceil(tiles_of(h, w, p) / gpu.multiprocessors);
      tiles.push_back({h, w, of_sm * products(h, w, p)});
    }
  }
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.cycles < b.cycles; });
  tiles.resize(std::min(tiles.size(), kMostTiles));
  return tiles;
}

struct Ranked {
  Config config;
  double cycles;
};

/// The best for every tile and chunk that can be among the first, in order.
std::vector<Ranked> ranked_configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr double kFewest = 1.2;  // times the products alone take
  std::vector<Ranked> ranked;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles_to_try(p, gpu)) {
    if (tile.cycles * kFewest > best) break;
    const int of_sm = static_cast<int>(
        std::min(std::ceil(tiles_of(tile.h, tile.w, p) / gpu.multiprocessors), static_cast<double>(kMostBlocks)));
    const int most_chunk = p.expand ? std::min(p.c_hidden, kMostWarps * kExpandUnit) : p.c_hidden;
    for (int chunk = p.expand ? kExpandUnit : p.c_hidden; chunk <= most_chunk; chunk += kExpandUnit) {
      if (p.c_hidden % chunk != 0) continue;
      const int units = p.expand ? chunk / kExpandUnit : 1;
      Ranked first{{}, std::numeric_limits<double>::infinity()};  // of this tile and chunk
      for (int warps = round_up(kFewestWarps, units); warps <= kMostWarps; warps += units) {
        if (units < kSchedulers && warps > kEvenWarps && warps % kSchedulers != 0) continue;
        for (int blocks = 1; blocks <= of_sm && blocks * warps <= kMostWarpsOfSm; ++blocks) {
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
          const std::optional<Config> whole = completed(c, p, gpu);
          if (!whole) continue;
          const double expected = cycles(*whole, p, gpu);
          if (expected < first.cycles) first = {*whole, expected};
        }
      }
      if (first.config.chunk == 0) continue;
      ranked.push_back(first);
      best = std::min(best, first.cycles);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; });
  return ranked;
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  std::vector<Config> found;
  if (p.elem != Elem::F32 || gpu.code < kOldestCode) return found;
  if (std::max({p.c_in, p.c_hidden, p.c_out}) > kMostConfigValue) return found;
  for (const Ranked& one : ranked_configurations(p, gpu)) {
    if (found.size() < kMost) found.push_back(one.config);
  }
  return found;
}

}  // namespace mobicuda::kernels::inverted_simt
