#pragma once

// The inner loops of fp32_kernels.h over Eigen's packets, whose width follows from the flags of the including file.
// Everything here has internal linkage, and uses no std template: a copy compiled for a newer processor must never
// serve the rest of the library.

#include <Eigen/Core>

#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {
namespace {  // NOLINT(misc-anonymous-namespace-in-header): each source that includes this has instructions of its own

using Packet = Eigen::internal::packet_traits<float>::type;
using Eigen::internal::pabs;
using Eigen::internal::padd;
using Eigen::internal::pand;
using Eigen::internal::pcmp_eq;
using Eigen::internal::pcmp_lt;
using Eigen::internal::pdiv;
using Eigen::internal::ploadu;
using Eigen::internal::plogical_shift_left;
using Eigen::internal::pmadd;
using Eigen::internal::pmax;
using Eigen::internal::pmin;
using Eigen::internal::pmul;
using Eigen::internal::pnegate;
using Eigen::internal::preinterpret;
using Eigen::internal::pselect;
using Eigen::internal::pset1;
using Eigen::internal::pstoreu;
using Eigen::internal::psub;

// Vectors of half and a quarter of the length, where there are any; else as long.
using Traits = Eigen::internal::packet_traits<float>;
using HalfPacket = Traits::half;
#ifdef EIGEN_VECTORIZE_AVX512
using QuarterPacket = Eigen::internal::Packet4f;
#else
using QuarterPacket = HalfPacket;
#endif

constexpr int kPacket = Traits::size;
constexpr int kHalf = Traits::HasHalfPacket ? kPacket / 2 : kPacket;
constexpr int kQuarter = sizeof(QuarterPacket) / sizeof(float);
static_assert(sizeof(HalfPacket) == kHalf * sizeof(float));
constexpr std::int64_t kPanel = 2 * kPacket;
constexpr std::int64_t kLineFloats = 16;  // of a cache line

// The value comes first, because pmax and pmin give their first operand when one is NaN.
template <class P>
P clamp(P x, P lo, P hi) {
  return pmin(pmax(x, lo), hi);
}

inline float clamp(float x, float lo, float hi) {
  const float raised = x < lo ? lo : x;
  return raised > hi ? hi : raised;
}

// Where a tile begins, and which part of k it sums: runs of whole taps, or a range of channels of one tap.
struct KRange {
  std::int64_t first_tap, last_tap;
  std::int64_t first_channel, last_channel;
  bool begins, ends;  ///< the sums

  std::int64_t length() const { return (last_tap - first_tap) * (last_channel - first_channel); }
};

// Rows of y or of the residual, as a tile reads and writes them.
struct TileRows {
  const float* data;
  std::int64_t stride;
};

// Out of line: only the last columns of y are copied, and a copy in each tile would be the most of its code.
[[gnu::noinline]] void copy_columns(TileRows from, std::int64_t rows, std::int64_t columns, float* to,
                                    std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[r * to_stride + c] = from.data[r * from.stride + c];
  }
}

// The first rows' columns as whole vectors: where y ends sooner, in a copy.
template <int Columns, int Rows>
TileRows whole_vectors(TileRows rows, std::int64_t columns, float (&edge)[Rows * Columns]) {
  if (columns >= Columns) return rows;
  copy_columns(rows, Rows, columns, edge, Columns);
  return {edge, Columns};
}

// The sums of a tile stay in registers only where no loop over them is left: an index that is known at run time would
// put all of them on the stack, to be read and written again around each tap. Hence every loop over them is unrolled.

// The bias where a tile begins with its columns; null, for zeros, where a part of k is not the first: each is a sum of
// its own, for the shorter a chain of additions, the less its rounding errors add up to.
inline const float* first_bias(const GemmTask& task, const KRange& k, std::int64_t column) {
  return k.begins && task.bias != nullptr ? task.bias + column : nullptr;
}

template <class P, int Size, int Packets, int Rows>
void begin_sums(const float* bias, P (&sums)[Rows][Packets]) {
#pragma GCC unroll 10
  for (int p = 0; p < Packets; ++p) {
    const P start = bias != nullptr ? ploadu<P>(bias + p * Size) : pset1<P>(0.0F);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) sums[r][p] = start;
  }
}

// Adds rows of y or of the residual.
template <class P, int Size, int Packets, int Rows>
void add_rows(const GemmTask& task, const float* from, std::int64_t columns, P (&sums)[Rows][Packets]) {
  float edge[Rows * Packets * Size];
  const TileRows rows = whole_vectors<Packets * Size, Rows>({from, task.y_stride}, columns, edge);
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 10
    for (int p = 0; p < Packets; ++p) sums[r][p] = padd(sums[r][p], ploadu<P>(rows.data + r * rows.stride + p * Size));
  }
}

// A product by zero changes a sum in nothing but the sign of a zero: with none left, it makes no difference whether it
// is added.
template <class P, int Packets, int Rows>
void drop_signs_of_zeros(P (&sums)[Rows][Packets]) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 10
    for (int p = 0; p < Packets; ++p) sums[r][p] = padd(sums[r][p], pset1<P>(0.0F));
  }
}

template <class P, int Size, int Packets, int Rows>
void store_sums(const P (&sums)[Rows][Packets], float* y, std::int64_t stride) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 10
    for (int p = 0; p < Packets; ++p) pstoreu(y + r * stride + p * Size, sums[r][p]);
  }
}

// Each sum clipped and stored before the next one is: all clipped first, the next tile would wait for them.
template <class P, int Size, int Packets, int Rows>
void store_clamped(const P (&sums)[Rows][Packets], float least, float most, float* y, std::int64_t stride) {
  const P lo = pset1<P>(least);
  const P hi = pset1<P>(most);
  // From row to row: rows' places by themselves are more than there are registers for, and the next tile would wait for
  // them.
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r, y += stride) {
#pragma GCC unroll 10
    for (int p = 0; p < Packets; ++p) pstoreu(y + p * Size, clamp(sums[r][p], lo, hi));
  }
}

template <class P, int Size, int Packets, int Rows>
void end_sums(const GemmTask& task, const KRange& k, std::int64_t row, std::int64_t column, P (&sums)[Rows][Packets]) {
  constexpr int kColumns = Packets * Size;
  const std::int64_t columns = task.n - column;
  const std::int64_t at = row * task.y_stride + column;
  if (!k.begins) add_rows<P, Size>(task, task.y + at, columns, sums);  // what the k before came to
  if (k.ends && task.unsigned_zeros) drop_signs_of_zeros(sums);
  if (k.ends && task.residual != nullptr) add_rows<P, Size>(task, task.residual + at, columns, sums);
  float edge[Rows * kColumns];
  float* const y = columns >= kColumns ? task.y + at : edge;
  const std::int64_t stride = columns >= kColumns ? task.y_stride : kColumns;
  if (k.ends) {
    store_clamped<P, Size>(sums, task.lo, task.hi, y, stride);
  } else {
    store_sums<P, Size>(sums, y, stride);
  }
  if (columns < kColumns) copy_columns({edge, kColumns}, Rows, columns, task.y + at, task.y_stride);
}

// Asks for what the rows after a tile have of one cache line: the processor sees only where a row goes on.
template <int Rows>
void prefetch_rows(const float* const* rows, std::int64_t count, std::int64_t offset) {
  for (std::int64_t r = 0; r < (count < Rows ? count : Rows); ++r) __builtin_prefetch(rows[r] + offset);
}

// Which lines of the next panel's weights a tile asks for, of those for kLineFloats of k: all tiles of a panel together
// ask for each line once. Weights that no cache holds would else keep the first tile of each panel waiting.
// A panel of so short a sum the processor brings by itself, in less time than it takes to say which lines.
constexpr std::int64_t kShortSum = 96;

struct LinesAhead {
  std::int64_t first = 0, last = 0;
};

template <int Rows>
LinesAhead lines_ahead(const GemmTask& task, std::int64_t row, std::int64_t panel) {
  if (task.taps * task.channels <= kShortSum || task.rows <= Rows ||
      (panel + 1 == task.last_panel && task.next == nullptr)) {
    return {};
  }
  return {row * task.panel / task.rows, (row + Rows) * task.panel / task.rows};
}

// Adds the products of some channels; w moves on. Two channels a turn, as the loop's own instructions are felt in short
// sums.
template <class P, int Size, int Packets, int Rows>
void add_products(const float* const (&x)[Rows], std::int64_t first, std::int64_t last, std::int64_t panel_stride,
                  const float*& w, P (&sums)[Rows][Packets]) {
#pragma GCC unroll 2
  for (std::int64_t channel = first; channel < last; ++channel, w += panel_stride) {
    P weights[Packets];
#pragma GCC unroll 10
    for (int p = 0; p < Packets; ++p) weights[p] = ploadu<P>(w + p * Size);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const P value = pset1<P>(x[r][channel]);
#pragma GCC unroll 10
      for (int p = 0; p < Packets; ++p) sums[r][p] = pmadd(value, weights[p], sums[r][p]);
    }
  }
}

// Kinds of vectors, which are no template arguments of classes themselves: some are GCC's with attributes.
struct WholeVector {
  using P = Packet;
  static constexpr int kSize = kPacket;
};
struct HalfVector {
  using P = HalfPacket;
  static constexpr int kSize = kHalf;
};
struct QuarterVector {
  using P = QuarterPacket;
  static constexpr int kSize = kQuarter;
};

// The sums of a tile of some rows and Packets vectors.
template <class Kind, int Packets, int Rows>
struct TileSums {
  using P = typename Kind::P;
  static constexpr int kSize = Kind::kSize;
  static constexpr int kRows = Rows;
  static constexpr std::int64_t kColumns = Packets * kSize;
  P sums[Rows][Packets];

  void begin(const float* bias) { begin_sums<P, kSize>(bias, sums); }
  void add(const float* const (&x)[Rows], std::int64_t first, std::int64_t last, std::int64_t panel_stride,
           const float*& w) {
    add_products<P, kSize>(x, first, last, panel_stride, w, sums);
  }
  void end(const GemmTask& task, const KRange& k, std::int64_t row, std::int64_t column) {
    end_sums<P, kSize>(task, k, row, column, sums);
  }
  void drop_signs() { drop_signs_of_zeros(sums); }
  void store(float least, float most, float* y, std::int64_t stride) const {
    store_clamped<P, kSize>(sums, least, most, y, stride);
  }
};

#ifdef EIGEN_VECTORIZE_AVX512

// The same of a register and half of one: 24 columns, which would leave a quarter of two registers idle.
template <int Rows>
struct RegisterAndHalf {
  static constexpr int kRows = Rows;
  static constexpr std::int64_t kColumns = kPacket + kHalf;
  Packet sums[Rows][1];
  HalfPacket halves[Rows][1];

  void begin(const float* bias) {
    begin_sums<Packet, kPacket>(bias, sums);
    begin_sums<HalfPacket, kHalf>(bias == nullptr ? nullptr : bias + kPacket, halves);
  }
  void add(const float* const (&x)[Rows], std::int64_t first, std::int64_t last, std::int64_t panel_stride,
           const float*& w) {
#pragma GCC unroll 2
    for (std::int64_t channel = first; channel < last; ++channel, w += panel_stride) {
      const Packet weights = ploadu<Packet>(w);
      const HalfPacket half_weights = ploadu<HalfPacket>(w + kPacket);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const Packet value = pset1<Packet>(x[r][channel]);
        sums[r][0] = pmadd(value, weights, sums[r][0]);
        halves[r][0] = pmadd(_mm512_castps512_ps256(value), half_weights, halves[r][0]);
      }
    }
  }
  void end(const GemmTask& task, const KRange& k, std::int64_t row, std::int64_t column) {
    end_sums<Packet, kPacket>(task, k, row, column, sums);
    end_sums<HalfPacket, kHalf>(task, k, row, column + kPacket, halves);
  }
  void drop_signs() {
    drop_signs_of_zeros(sums);
    drop_signs_of_zeros(halves);
  }
  void store(float least, float most, float* y, std::int64_t stride) const {
    store_clamped<Packet, kPacket>(sums, least, most, y, stride);
    store_clamped<HalfPacket, kHalf>(halves, least, most, y + kPacket, stride);
  }
};

#endif

// Tiles below each other, whose sums are held in registers while a part of k passes.
template <class Sums>
[[gnu::noinline]] void gemm_tiles(const GemmTask& caller, const KRange& range, std::int64_t panel,
                                  std::int64_t first_row, std::int64_t tiles) {
  // Copies that no store can change: else all would be read again for each tile.
  const GemmTask task = caller;
  const KRange k = range;
  const std::int64_t panel_stride = task.panel;
  const std::int64_t whole_panel = panel_stride * task.taps * task.channels;
  const float* const panel_weights = task.packed + panel * whole_panel;
  const std::int64_t to_next_panel = panel + 1 == task.last_panel ? task.next - panel_weights : whole_panel;
  const bool first_panel = panel == task.first_panel;
  constexpr int kRows = Sums::kRows;
  for (std::int64_t row = first_row; row < first_row + tiles * kRows; row += kRows) {
    Sums sums;
    sums.begin(first_bias(task, k, panel * panel_stride));
    const LinesAhead ahead = lines_ahead<kRows>(task, row, panel);
    const std::int64_t step = first_panel || ahead.first < ahead.last ? kLineFloats : task.channels;
    const float* w = panel_weights + panel_stride * (k.first_tap * task.channels + k.first_channel);
    for (std::int64_t tap = k.first_tap; tap < k.last_tap; ++tap) {
      const float* x[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) x[r] = task.x[tap * task.x_rows + row + r] + task.x_offset;
      for (std::int64_t channel = k.first_channel; channel < k.last_channel; channel += step) {
        // The first panel brings the rows into a cache, where they are for the others.
        if (first_panel) {
          prefetch_rows<kRows>(task.x + tap * task.x_rows + row + kRows, task.rows - row - kRows,
                               task.x_offset + channel);
        }
        for (std::int64_t line = ahead.first; line < ahead.last; ++line) {
          __builtin_prefetch(w + to_next_panel + line * kLineFloats, 0, 2);
        }
        const std::int64_t end = channel + step < k.last_channel ? channel + step : k.last_channel;
        sums.add(x, channel, end, panel_stride, w);
      }
    }
    sums.end(task, k, row, panel * panel_stride);
  }
}

// The same of short sums, without residual and of whole vectors: what a tile does beside its products would else take
// half as long as they. Rows of so few channels the processor brings by itself.
template <class Sums, bool OneRun>
[[gnu::noinline]] void gemm_short_tiles(const GemmTask& task, std::int64_t panel, std::int64_t first_row,
                                        std::int64_t tiles) {
  const std::int64_t channels = task.channels;
  const std::int64_t panel_stride = task.panel;
  const std::int64_t taps = OneRun ? 1 : task.taps;
  const float* const panel_weights = task.packed + panel * panel_stride * taps * channels;
  const float* const bias = task.bias + panel * panel_stride;
  const float* const* rows = task.x + first_row;
  const std::int64_t x_rows = task.x_rows;
  const std::int64_t x_offset = task.x_offset;
  float* y = task.y + first_row * task.y_stride + panel * panel_stride;
  const std::int64_t y_stride = task.y_stride;
  const float lo = task.lo;
  const float hi = task.hi;
  const bool unsigned_zeros = task.unsigned_zeros;
  constexpr int kRows = Sums::kRows;
  for (std::int64_t tile = 0; tile < tiles; ++tile, rows += kRows, y += kRows * y_stride) {
    Sums sums;
    sums.begin(bias);
    const float* w = panel_weights;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const float* x[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) x[r] = rows[tap * x_rows + r] + x_offset;
      sums.add(x, 0, channels, panel_stride, w);
    }
    if (unsigned_zeros) sums.drop_signs();
    sums.store(lo, hi, y, y_stride);
  }
}

template <template <int> class Sums, int MaxRows>
void gemm_rows(const GemmTask& task, const KRange& k, std::int64_t panel, std::int64_t row, std::int64_t rows,
               std::int64_t tiles) {
  if constexpr (MaxRows > 1) {
    if (rows < MaxRows) return gemm_rows<Sums, MaxRows - 1>(task, k, panel, row, rows, tiles);
  }
  if (task.taps * task.channels <= kShortSum && task.bias != nullptr && task.residual == nullptr &&
      task.n - panel * task.panel >= Sums<MaxRows>::kColumns) {
    return task.taps == 1 ? gemm_short_tiles<Sums<MaxRows>, true>(task, panel, row, tiles)
                          : gemm_short_tiles<Sums<MaxRows>, false>(task, panel, row, tiles);
  }
  gemm_tiles<Sums<MaxRows>>(task, k, panel, row, tiles);
}

template <template <int> class Sums, int MaxRows>
void gemm_panel(const GemmTask& task, const KRange& k, std::int64_t panel) {
  // Tiles of nearly equal height: 49 rows are 7 x 7, not 6 x 8 and one row that leaves the pipeline idle.
  const std::int64_t tiles = (task.rows + MaxRows - 1) / MaxRows;
  const std::int64_t rows = task.rows / tiles;
  const std::int64_t higher = task.rows % tiles;
  if (higher > 0) gemm_rows<Sums, MaxRows>(task, k, panel, 0, rows + 1, higher);
  gemm_rows<Sums, MaxRows>(task, k, panel, higher * (rows + 1), rows, tiles - higher);
}

template <int Rows>
using TwoRegisters = TileSums<WholeVector, 2, Rows>;
template <int Rows>
using OneRegister = TileSums<WholeVector, 1, Rows>;
template <int Rows>
using ThreeHalves = TileSums<HalfVector, 3, Rows>;
template <int Rows>
using FourHalves = TileSums<HalfVector, 4, Rows>;
template <int Rows>
using HalfRegister = TileSums<HalfVector, 1, Rows>;
template <int Rows>
using QuarterRegister = TileSums<QuarterVector, 1, Rows>;

// The rows of a tile, MaxRows where it has two registers' columns. With Halves, half registers do what takes as long
// with them: processors that compute a register as two halves store these faster, and overlap a tile's end with the
// next one.
template <int MaxRows, bool Halves>
void gemm_range(const GemmTask& task, const KRange& k) {
  // Of one register a row, eight sums at least: two are begun in a cycle, and each takes four.
  constexpr int kMostRows = MaxRows < 8 ? 8 : MaxRows;
  for (std::int64_t panel = task.first_panel; panel < task.last_panel; ++panel) {
    const std::int64_t columns = task.n - panel * task.panel;
    if constexpr (Halves) {
      // 24 sums. Of a long sum 8 rows, for which weights are read less often.
      if (columns > kPacket && columns <= kPacket + kHalf) {
        gemm_panel<ThreeHalves, 8>(task, k, panel);
        continue;
      }
      if (columns > kPacket + kHalf && task.taps * task.channels <= kShortSum) {
        gemm_panel<FourHalves, 6>(task, k, panel);
        continue;
      }
    }
    if (columns > kPacket) {
#ifdef EIGEN_VECTORIZE_AVX512
      if (columns <= kPacket + kHalf) {
        gemm_panel<RegisterAndHalf, MaxRows>(task, k, panel);
        continue;
      }
#endif
      gemm_panel<TwoRegisters, MaxRows>(task, k, panel);
    } else if (task.panel >= kPacket) {
      gemm_panel<OneRegister, kMostRows>(task, k, panel);
    } else if (task.panel >= kHalf) {
      gemm_panel<HalfRegister, kMostRows>(task, k, panel);
    } else {
      gemm_panel<QuarterRegister, kMostRows>(task, k, panel);
    }
  }
}

// k in parts of at most `longest`, or of one tap where that is more.
class KParts {
 public:
  KParts(const GemmTask& task, std::int64_t longest)
      : taps_(task.taps), channels_(task.channels), whole_taps_(channels_ <= longest) {
    const std::int64_t most = whole_taps_ ? longest / channels_ : longest;
    parts_ = ((whole_taps_ ? taps_ : channels_) + most - 1) / most;
  }

  std::int64_t count() const { return whole_taps_ ? parts_ : taps_ * parts_; }
  KRange operator[](std::int64_t i) const {
    const bool begins = i == 0;
    const bool ends = i + 1 == count();
    if (whole_taps_) return {i * taps_ / parts_, (i + 1) * taps_ / parts_, 0, channels_, begins, ends};
    const std::int64_t tap = i / parts_;
    const std::int64_t part = i % parts_;
    return {tap, tap + 1, part * channels_ / parts_, (part + 1) * channels_ / parts_, begins, ends};
  }

 private:
  std::int64_t taps_, channels_;
  bool whole_taps_;
  std::int64_t parts_;  // of all taps, or of each
};

// For each part of k all panels, for each of them all rows.
template <int MaxRows, bool Halves>
void gemm(const GemmTask& task) {
  if (task.rows == 0) return;
  const KParts parts(task, kLongestSum);
  for (std::int64_t i = 0; i < parts.count(); ++i) gemm_range<MaxRows, Halves>(task, parts[i]);
}

// ---- products without those by zero

// Rows whose zeros are left out where all have them.
constexpr int kNonzeroRows = 2;
// For fewer rows it is the reading of weights that takes the time, and all of them one after the other are read faster.
constexpr std::int64_t kFewestNonzeroRows = 24;
// Of k that passes at once: its weights for one group stay in an L2 cache while all rows pass, beside the next ones.
constexpr std::int64_t kLongestNonzeroSum = 256;

// How panels are grouped, and what pays, which differs between processors: docs/cpu_engine.md has the times. A pair of
// rows takes no longer for its sums than an L2 cache takes to give their weights, so that weights of many panels stay
// in an L1 cache while all rows pass.
struct OneSumACycle {
  static constexpr int kPanels = 3;                    // side by side, of one group
  static constexpr int kGroupPanels = 2;               // of each, where more groups share their rows' lists
  static constexpr std::int64_t kGroupWeights = 6144;  // of those, that pass at once
  static constexpr std::int64_t kPanelsWeights = kPanels * kLongestNonzeroSum * kPanel;  // of three panels and more
  static constexpr bool kSeveralSums = true;  // whether it pays where k is longer than kLongestSum

  // The most products that may be left, in sixteenths of all.
  static constexpr std::int64_t most_left(std::int64_t /*panels*/) { return 13; }
};

// For processors that begin two sums of whole registers in a cycle: the 8 sums of two panels, each of four cycles, are
// just enough where nothing waits, and an L2 cache gives weights for half of them.
struct TwoSumsACycle {
  static constexpr int kPanels = 5;
  static constexpr int kGroupPanels = 4;
  static constexpr std::int64_t kGroupWeights = 8192;
  static constexpr std::int64_t kPanelsWeights = 10240;
  static constexpr bool kSeveralSums = false;

  static constexpr std::int64_t most_left(std::int64_t panels) {
    return panels == 1 ? 6 : panels == 2 ? 9 : panels <= kPanels ? 10 : 11;
  }
};

// The values of a part of k that are not zero in each of some rows.
template <int Rows>
struct NonzeroList {
  std::int64_t count;
  std::int32_t* weights;  // where their weights begin in a panel's part
  float* x[Rows];
};

// Lists of one part of k.
template <int Rows>
class NonzeroLists {
 public:
  explicit NonzeroLists(std::int64_t sum)
      : room_(sum + kPacket), count_(kEntries / room_ < kMost ? kEntries / room_ : kMost) {}

  /// That there is room for.
  std::int64_t count() const { return count_; }
  NonzeroList<Rows> operator[](std::int64_t i) {
    NonzeroList<Rows> list{lengths_[i], weights_ + i * room_, {}};
    for (int r = 0; r < Rows; ++r) list.x[r] = x_[r] + i * room_;
    return list;
  }
  /// List i is as long as this one, which was filled in its place.
  void keep(std::int64_t i, const NonzeroList<Rows>& filled) { lengths_[i] = filled.count; }

 private:
  static constexpr std::int64_t kMost = 48;
  static constexpr std::int64_t kEntries = 4432;
  static_assert(kEntries >= kLongestSum + kPacket);

  std::int64_t room_;  // of a list: a vector more than it may have
  std::int64_t count_;
  std::int64_t lengths_[kMost] = {};
  std::int32_t weights_[kEntries];
  float x_[Rows][kEntries];
};

#if defined(EIGEN_VECTORIZE_AVX2) && !defined(EIGEN_VECTORIZE_AVX512)

// For each set of lanes those that are in it, one after the other; then any.
struct LanesFirst {
  std::uint8_t lanes[256][8];

  constexpr LanesFirst() : lanes() {
    for (unsigned set = 0; set < 256; ++set) {
      int count = 0;
      for (std::uint8_t lane = 0; lane < 8; ++lane) {
        if ((set >> lane & 1U) != 0) lanes[set][count++] = lane;
      }
    }
  }
};
constexpr LanesFirst kLanesFirst;

#endif

// Adds channels first..last of a run to the list; the weights of the first one begin at `weights`, those of each after
// it `step` behind.
template <int Rows>
void list_nonzero(const float* const (&x)[Rows], std::int64_t first, std::int64_t last, std::int32_t weights,
                  std::int32_t step, NonzeroList<Rows>& list) {
  // In registers: a store may alias the list.
  std::int32_t* const to_weights = list.weights;
  float* to_x[Rows];
#pragma GCC unroll 2
  for (int r = 0; r < Rows; ++r) to_x[r] = list.x[r];
  std::int64_t count = list.count;
  std::int64_t c = first;
#if defined(EIGEN_VECTORIZE_AVX512)
  constexpr int kLanes = 16;
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i at = _mm512_add_epi32(_mm512_set1_epi32(weights), _mm512_mullo_epi32(lanes, _mm512_set1_epi32(step)));
  const __m512i further = _mm512_set1_epi32(kLanes * step);
  for (; c < last; c += kLanes, at = _mm512_add_epi32(at, further)) {
    const unsigned inside = last - c >= kLanes ? 0xFFFFU : (1U << static_cast<unsigned>(last - c)) - 1U;
    __m512 values[Rows];
    unsigned kept = 0;
#pragma GCC unroll 2
    for (int r = 0; r < Rows; ++r) {
      values[r] = _mm512_maskz_loadu_ps(static_cast<__mmask16>(inside), x[r] + c);
      kept |= _mm512_cmp_ps_mask(values[r], _mm512_setzero_ps(), _CMP_NEQ_UQ);
    }
    const auto mask = static_cast<__mmask16>(kept);
    // Into a register first: to compress to memory takes ten times as long on some processors.
    _mm512_storeu_si512(to_weights + count, _mm512_maskz_compress_epi32(mask, at));
#pragma GCC unroll 2
    for (int r = 0; r < Rows; ++r) _mm512_storeu_ps(to_x[r] + count, _mm512_maskz_compress_ps(mask, values[r]));
    count += __builtin_popcount(kept);
  }
#elif defined(EIGEN_VECTORIZE_AVX2)
  constexpr int kLanes = 8;
  const __m256i lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  __m256i at = _mm256_add_epi32(_mm256_set1_epi32(weights), _mm256_mullo_epi32(lanes, _mm256_set1_epi32(step)));
  const __m256i further = _mm256_set1_epi32(kLanes * step);
  for (; c + kLanes <= last; c += kLanes, at = _mm256_add_epi32(at, further)) {
    __m256 values[Rows];
    unsigned kept = 0;
#pragma GCC unroll 2
    for (int r = 0; r < Rows; ++r) {
      values[r] = _mm256_loadu_ps(x[r] + c);
      const __m256 nonzero = _mm256_cmp_ps(values[r], _mm256_setzero_ps(), _CMP_NEQ_UQ);
      kept |= static_cast<unsigned>(_mm256_movemask_ps(nonzero));
    }
    const auto* const order = reinterpret_cast<const __m128i*>(kLanesFirst.lanes[kept]);
    const __m256i kept_first = _mm256_cvtepu8_epi32(_mm_loadl_epi64(order));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to_weights + count), _mm256_permutevar8x32_epi32(at, kept_first));
#pragma GCC unroll 2
    for (int r = 0; r < Rows; ++r) {
      _mm256_storeu_ps(to_x[r] + count, _mm256_permutevar8x32_ps(values[r], kept_first));
    }
    count += __builtin_popcount(kept);
  }
  weights += static_cast<std::int32_t>(c - first) * step;
#endif
  for (; c < last; ++c, weights += step) {
    bool kept = false;
    to_weights[count] = weights;
#pragma GCC unroll 2
    for (int r = 0; r < Rows; ++r) {
      to_x[r][count] = x[r][c];
      kept |= x[r][c] != 0.0F;
    }
    count += kept ? 1 : 0;
  }
  list.count = count;
}

template <int Rows>
NonzeroList<Rows> list_part(const GemmTask& task, const KRange& k, std::int64_t row, NonzeroList<Rows> list) {
  list.count = 0;
  const auto step = static_cast<std::int32_t>(task.panel);
  for (std::int64_t tap = k.first_tap; tap < k.last_tap; ++tap) {
    const float* x[Rows];
    for (int r = 0; r < Rows; ++r) x[r] = task.x[tap * task.x_rows + row + r] + task.x_offset;
    const auto weights = static_cast<std::int32_t>((tap - k.first_tap) * task.channels * task.panel);
    list_nonzero(x, k.first_channel, k.last_channel, weights, step, list);
  }
  return list;
}

// Keeps a value in its register: a compiler would else read it from memory again for each row, and loads are what a
// tile of few rows is short of.
inline Packet in_register(Packet x) {
#ifdef MOBICUDA_CPU_X86
  asm("" : "+v"(x));
#endif
  return x;
}

// Adds the products of entry i of a list.
template <int Rows, int Vectors>
[[gnu::always_inline]] inline void add_entry(const NonzeroList<Rows>& list, std::int64_t i, const float* weights,
                                             std::int64_t to_next_panel, Packet (&sums)[Rows][Vectors]) {
  const float* w = weights + list.weights[i];
  Packet values[Rows];
#pragma GCC unroll 2
  for (int r = 0; r < Rows; ++r) values[r] = pset1<Packet>(list.x[r][i]);
#pragma GCC unroll 10
  for (int v = 0; v < Vectors; ++v) {
    const float* const at = w + v % 2 * kPacket;
    if (v % 2 == 1) w += to_next_panel;
    const Packet vector = Rows > 1 ? in_register(ploadu<Packet>(at)) : ploadu<Packet>(at);
#pragma GCC unroll 2
    for (int r = 0; r < Rows; ++r) sums[r][v] = pmadd(values[r], vector, sums[r][v]);
  }
}

// Lines of weights that are needed next, to be asked for.
struct WeightLines {
  const float* first;
  std::int64_t count;
};

// What passes at once: a part of k, of one of GemmTask's parts of which it is the first or not, for some panels.
struct NonzeroBlock {
  KRange k;
  bool begins;
  std::int64_t first_panel, last_panel;

  const float* weights(const GemmTask& task) const {
    return task.packed +
           task.panel * (first_panel * task.taps * task.channels + k.first_tap * task.channels + k.first_channel);
  }
  // Lines of a panel's weights.
  std::int64_t lines(const GemmTask& task) const { return task.panel * k.length() / kLineFloats; }
};

// Some rows' sums of a block.
template <int Rows, int Vectors>
struct NonzeroTile {
  const GemmTask& task;
  const NonzeroBlock& block;
  std::int64_t row;
  Packet sums[Rows][Vectors];

  std::int64_t column() const { return block.first_panel * task.panel; }

  [[gnu::always_inline]] void begin() {
    begin_sums<Packet, kPacket>(first_bias(task, block.k, column()), sums);
    if (block.begins) return;
    add_rows<Packet, kPacket>(task, task.y + row * task.y_stride + column(), task.n - column(), sums);
  }
  [[gnu::always_inline]] void end() {
    KRange k = block.k;
    if (!block.begins) k.begins = true;  // what the k before came to is among them
    end_sums<Packet, kPacket>(task, k, row, column(), sums);
  }
};

template <int Rows, int Vectors>
[[gnu::noinline]] void nonzero_tile(const GemmTask& task, const NonzeroBlock& block, const NonzeroList<Rows>& list,
                                    WeightLines ahead, std::int64_t row) {
  for (std::int64_t i = 0; i < ahead.count; ++i) __builtin_prefetch(ahead.first + i * kLineFloats, 0, 2);
  NonzeroTile<Rows, Vectors> tile{task, block, row, {}};
  tile.begin();
  const float* const weights = block.weights(task);
  const std::int64_t to_next_panel = task.panel * task.taps * task.channels;
  for (std::int64_t i = 0; i < list.count; ++i) add_entry(list, i, weights, to_next_panel, tile.sums);
  tile.end();
}

// Rows of one panel, whose few sums would wait for each other, with the rows after them.
template <int Rows, int Vectors>
[[gnu::noinline]] void nonzero_two_tiles(const GemmTask& task, const NonzeroBlock& block,
                                         const NonzeroList<Rows>& first, const NonzeroList<Rows>& second,
                                         std::int64_t row) {
  NonzeroTile<Rows, Vectors> one{task, block, row, {}};
  NonzeroTile<Rows, Vectors> other{task, block, row + Rows, {}};
  one.begin();
  other.begin();
  const float* const weights = block.weights(task);
  const std::int64_t to_next_panel = task.panel * task.taps * task.channels;
  const std::int64_t both = first.count < second.count ? first.count : second.count;
  for (std::int64_t i = 0; i < both; ++i) {
    add_entry(first, i, weights, to_next_panel, one.sums);
    add_entry(second, i, weights, to_next_panel, other.sums);
  }
  for (std::int64_t i = both; i < first.count; ++i) add_entry(first, i, weights, to_next_panel, one.sums);
  for (std::int64_t i = both; i < second.count; ++i) add_entry(second, i, weights, to_next_panel, other.sums);
  one.end();
  other.end();
}

template <int Rows, int Vectors>
void nonzero_vectors(const GemmTask& task, const NonzeroBlock& block, const NonzeroList<Rows>& list, WeightLines ahead,
                     std::int64_t row, std::int64_t vectors) {
  if constexpr (Vectors > 1) {
    if (vectors < Vectors) return nonzero_vectors<Rows, Vectors - 1>(task, block, list, ahead, row, vectors);
  }
  nonzero_tile<Rows, Vectors>(task, block, list, ahead, row);
}

// Whether so many values are zero in both rows of pairs that it pays to look for them: of three pairs, as it takes
// time.
template <class Way>
bool has_many_zeros(const GemmTask& task) {
  constexpr int kPairs = 3;
  const KRange k = KParts(task, kLongestNonzeroSum)[0];
  const std::int64_t sum = k.length();
  NonzeroLists<kNonzeroRows> lists(sum);
  std::int64_t nonzero = 0;
  for (std::int64_t i = 0; i < kPairs; ++i) {
    nonzero += list_part(task, k, i * (task.rows - kNonzeroRows) / (kPairs - 1), lists[0]).count;
  }
  return 16 * nonzero <= Way::most_left(task.last_panel - task.first_panel) * kPairs * sum;
}

// Blocks of a product: for each part of k one after the other groups of panels.
template <class Way>
class NonzeroBlocks {
 public:
  explicit NonzeroBlocks(const GemmTask& task)
      : first_panel_(task.first_panel),
        panels_(task.last_panel - task.first_panel),
        one_sum_(KParts(task, kLongestSum).count() == 1),
        share_lists_(one_sum_ && panels_ > Way::kPanels),
        groups_(share_lists_ ? (panels_ + Way::kGroupPanels - 1) / Way::kGroupPanels
                             : (panels_ + Way::kPanels - 1) / Way::kPanels),
        // Where several sums are added, none of them goes on from one part to the next.
        parts_(task, !one_sum_      ? kLongestSum
                     : share_lists_ ? Way::kGroupWeights / (Way::kGroupPanels * task.panel)
                                    : longest_sum(task)) {}

  std::int64_t parts() const { return parts_.count(); }
  std::int64_t groups() const { return groups_; }
  /// Which are so short that many fit a cache.
  bool share_lists() const { return share_lists_; }
  KRange part(std::int64_t i) const { return parts_[i]; }
  /// Behind the last one, of few rows: what lies behind the weights, of which the next product may have its own.
  NonzeroBlock at(std::int64_t part, std::int64_t group) const {
    if (group == groups_) return at(part + 1, 0);
    if (part < parts_.count()) {
      return {parts_[part], !one_sum_ || part == 0, first_panel_ + group * panels_ / groups_,
              first_panel_ + (group + 1) * panels_ / groups_};
    }
    if (!share_lists_) return {};
    return {parts_[0], true, first_panel_ + panels_, first_panel_ + panels_ + 1};
  }

 private:
  // Of one group.
  std::int64_t longest_sum(const GemmTask& task) const {
    const std::int64_t most = Way::kPanelsWeights / (panels_ * task.panel);
    return panels_ < 3 || most > kLongestNonzeroSum ? kLongestNonzeroSum : most;
  }

  std::int64_t first_panel_, panels_;
  bool one_sum_, share_lists_;
  std::int64_t groups_;
  KParts parts_;
};

// Deals the lines of a block's weights to so many lists, which ask for them.
class LinesToAskFor {
 public:
  LinesToAskFor(const GemmTask& task, const NonzeroBlock& block, std::int64_t lists)
      : first_(block.weights(task)),
        to_next_panel_(task.panel * task.taps * task.channels),
        lines_(block.lines(task)),
        panels_(block.last_panel - block.first_panel),
        share_((panels_ * lines_ + lists - 1) / lists) {}

  /// Of one panel.
  WeightLines take() {
    if (panels_ == 0) return {nullptr, 0};
    const std::int64_t left = lines_ - taken_;
    const WeightLines lines{first_ + taken_ * kLineFloats, left < share_ ? left : share_};
    taken_ += lines.count;
    if (taken_ == lines_) {
      first_ += to_next_panel_;
      taken_ = 0;
      --panels_;
    }
    return lines;
  }

 private:
  const float* first_;
  std::int64_t to_next_panel_, lines_, panels_, share_;
  std::int64_t taken_ = 0;
};

// Some rows of a block, whose values a list has.
template <class Way, int Rows>
void nonzero_block(const GemmTask& task, const NonzeroBlock& block, const NonzeroList<Rows>& list, WeightLines ahead,
                   std::int64_t row) {
  const std::int64_t end = block.last_panel * task.panel;
  const std::int64_t columns = (end < task.n ? end : task.n) - block.first_panel * task.panel;
  nonzero_vectors<Rows, 2 * Way::kPanels>(task, block, list, ahead, row, (columns + kPacket - 1) / kPacket);
}

// Rows first..last, whose number Rows divides. Groups that share lists take those of as many rows as there is room for;
// others take each as it is made, from the L1 cache. The first ones, but for two tiles at a time, ask for the
// next block's weights.
template <class Way, int Rows>
[[gnu::noinline]] void nonzero_rows(const GemmTask& task, const NonzeroBlocks<Way>& blocks, std::int64_t part,
                                    std::int64_t first, std::int64_t last) {
  if (first == last) return;
  const KRange k = blocks.part(part);
  NonzeroLists<Rows> lists(k.length());
  if (!blocks.share_lists()) {
    for (std::int64_t group = 0; group < blocks.groups(); ++group) {
      const NonzeroBlock block = blocks.at(part, group);
      LinesToAskFor ahead(task, blocks.at(part, group + 1), (last - first) / Rows);
      std::int64_t row = first;
      if constexpr (Rows == kNonzeroRows) {
        const bool few_sums =
            block.last_panel - block.first_panel == 1 && task.n - block.first_panel * task.panel > kPacket;
        for (; few_sums && row + 2 * Rows <= last; row += 2 * Rows) {
          const NonzeroList<Rows> one = list_part(task, k, row, lists[0]);
          nonzero_two_tiles<Rows, 2>(task, block, one, list_part(task, k, row + Rows, lists[1]), row);
        }
      }
      for (; row < last; row += Rows) {
        nonzero_block<Way>(task, block, list_part(task, k, row, lists[0]),
                           first == 0 ? ahead.take() : WeightLines{nullptr, 0}, row);
      }
    }
    return;
  }
  for (std::int64_t row = first; row < last; row += Rows * lists.count()) {
    const std::int64_t left = (last - row) / Rows;
    const std::int64_t count = left < lists.count() ? left : lists.count();
    for (std::int64_t i = 0; i < count; ++i) lists.keep(i, list_part(task, k, row + Rows * i, lists[i]));
    for (std::int64_t group = 0; group < blocks.groups(); ++group) {
      const NonzeroBlock block = blocks.at(part, group);
      LinesToAskFor ahead(task, blocks.at(part, group + 1), count);
      for (std::int64_t i = 0; i < count; ++i) {
        nonzero_block<Way>(task, block, lists[i], row == 0 ? ahead.take() : WeightLines{nullptr, 0}, row + Rows * i);
      }
    }
  }
}

template <int MaxRows, bool Halves, class Way>
void gemm_nonzero(const GemmTask& task) {
  const bool several_sums = KParts(task, kLongestSum).count() > 1;
  if (task.rows < kFewestNonzeroRows || task.panel < kPanel || (several_sums && !Way::kSeveralSums) ||
      !has_many_zeros<Way>(task)) {
    return gemm<MaxRows, Halves>(task);
  }
  const NonzeroBlocks<Way> blocks(task);
  const std::int64_t paired = task.rows / kNonzeroRows * kNonzeroRows;
  for (std::int64_t part = 0; part < blocks.parts(); ++part) {
    nonzero_rows<Way, kNonzeroRows>(task, blocks, part, 0, paired);
    nonzero_rows<Way, 1>(task, blocks, part, paired, task.rows);
  }
}

// The taps of a window along one axis that lie within the image.
struct Taps {
  std::int64_t first, last, start;
};

inline Taps taps_at(std::int64_t o, std::int64_t kernel, std::int64_t stride, std::int64_t dilation, std::int64_t pad,
                    std::int64_t extent) {
  Taps taps{0, kernel, o * stride - pad};
  while (taps.first < kernel && taps.start + taps.first * dilation < 0) ++taps.first;
  while (taps.last > taps.first && taps.start + (taps.last - 1) * dilation >= extent) --taps.last;
  return taps;
}

// The lines under a window of some height, from one to the next. A line's place in the ring is a division, which takes
// as long as a short window's sums: there is one for an output row or two.
struct DepthwiseLines {
  Taps taps;
  const float* first;  // where the line of the first tap begins
  const float* end;    // of the ring
  std::int64_t step, ring;

  DepthwiseLines(const DepthwiseTask& t, std::int64_t height)
      : taps(taps_at(t.oy, height, t.stride_h, t.dilation_h, t.pad_top, t.h)),
        first(t.x),
        end(t.x + t.ring * t.w * t.c),
        step(t.dilation_h * t.w * t.c),
        ring(t.ring * t.w * t.c) {
    if (taps.first < taps.last) first += (taps.start + taps.first * t.dilation_h) % t.ring * t.w * t.c;
  }

  const float* after(const float* line) const { return end - line > step ? line + step : line + step - ring; }
};

// Any window; those of all Pixels have the same taps. A weight is loaded once for all.
template <class P, int Pixels>
void depthwise_vector(const DepthwiseTask& t, const DepthwiseLines& lines, const Taps& columns, std::int64_t ox,
                      std::int64_t c) {
  P sums[Pixels];
  const P begin = ploadu<P>(t.bias + c);
#pragma GCC unroll 8
  for (int i = 0; i < Pixels; ++i) sums[i] = begin;
  const std::int64_t step = t.stride_w * t.c;
  const float* line = lines.first;
  for (std::int64_t ky = lines.taps.first; ky < lines.taps.last; ++ky, line = lines.after(line)) {
    for (std::int64_t kx = columns.first; kx < columns.last; ++kx) {
      const float* pixel = line + (columns.start + kx * t.dilation_w) * t.c + c;
      const P weight = ploadu<P>(t.packed + (ky * t.kernel_w + kx) * t.c + c);
#pragma GCC unroll 8
      for (int i = 0; i < Pixels; ++i) sums[i] = pmadd(ploadu<P>(pixel + i * step), weight, sums[i]);
    }
  }
  const std::int64_t at = ox * t.c + c;
  if (t.residual != nullptr) {
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i) sums[i] = padd(sums[i], ploadu<P>(t.residual + at + i * t.c));
  }
  const P lo = pset1<P>(t.lo);
  const P hi = pset1<P>(t.hi);
#pragma GCC unroll 8
  for (int i = 0; i < Pixels; ++i) pstoreu(t.y + at + i * t.c, clamp(sums[i], lo, hi));
}

// The last vector of a pixel begins where it ends with the pixel: its first channels are computed twice.
template <class P, int Size, int Pixels>
void depthwise_vectors(const DepthwiseTask& task, const DepthwiseLines& task_lines, const Taps& task_columns,
                       std::int64_t ox) {
  // Copies that no store can change, as vectors may alias anything: else all would be read again for each vector.
  const DepthwiseTask t = task;
  const DepthwiseLines lines = task_lines;
  const Taps columns = task_columns;
  for (std::int64_t c = 0; c < t.c; c += Size) {
    depthwise_vector<P, Pixels>(t, lines, columns, ox, c + Size <= t.c ? c : t.c - Size);
  }
}

inline void depthwise_channel(const DepthwiseTask& t, const DepthwiseLines& lines, const Taps& columns, std::int64_t ox,
                              std::int64_t c) {
  float sum = t.bias[c];
  const float* line = lines.first;
  for (std::int64_t ky = lines.taps.first; ky < lines.taps.last; ++ky, line = lines.after(line)) {
    for (std::int64_t kx = columns.first; kx < columns.last; ++kx) {
      sum += line[(columns.start + kx * t.dilation_w) * t.c + c] * t.packed[(ky * t.kernel_w + kx) * t.c + c];
    }
  }
  const std::int64_t at = ox * t.c + c;
  if (t.residual != nullptr) sum += t.residual[at];
  t.y[at] = clamp(sum, t.lo, t.hi);
}

template <int Pixels>
void depthwise_channels(const DepthwiseTask& t, const DepthwiseLines& lines, const Taps& columns, std::int64_t ox) {
  if (t.c >= kPacket) return depthwise_vectors<Packet, kPacket, Pixels>(t, lines, columns, ox);
  if (t.c >= kHalf) return depthwise_vectors<HalfPacket, kHalf, Pixels>(t, lines, columns, ox);
  if (t.c >= kQuarter) return depthwise_vectors<QuarterPacket, kQuarter, Pixels>(t, lines, columns, ox);
  for (int i = 0; i < Pixels; ++i) {
    Taps moved = columns;
    moved.start += i * t.stride_w;
    for (std::int64_t c = 0; c < t.c; ++c) depthwise_channel(t, lines, moved, ox + i, c);
  }
}

constexpr int kMostTogether = 8;       // outputs of a row
constexpr int kMostTogetherOfTwo = 6;  // of two registers each: as many sums as a tile has

void depthwise_any_window(const DepthwiseTask& t, const DepthwiseLines& lines) {
  const auto taps = [&t](std::int64_t ox) {
    return taps_at(ox, t.kernel_w, t.stride_w, t.dilation_w, t.pad_left, t.w);
  };
  std::int64_t ox = 0;
  while (ox < t.out_w) {
    const Taps columns = taps(ox);
    // Taps are lost at the edges alone: a pixel that has them all, and another that has, have neighbours that have.
    const auto as_last = [&](int pixels) {
      if (ox + pixels > t.out_w) return false;
      const Taps last = taps(ox + pixels - 1);
      return columns.first == 0 && columns.last == t.kernel_w && last.first == 0 && last.last == t.kernel_w;
    };
    if (as_last(kMostTogether)) {
      depthwise_channels<kMostTogether>(t, lines, columns, ox);
      ox += kMostTogether;
    } else if (as_last(kMostTogether / 2)) {
      depthwise_channels<kMostTogether / 2>(t, lines, columns, ox);
      ox += kMostTogether / 2;
    } else {
      depthwise_channels<1>(t, lines, columns, ox);
      ++ox;
    }
  }
}

constexpr int kMostHeight = 5;             // of a window whose width the loops below know
constexpr int kMostStride = 2;             // of one that two output rows share lines of
constexpr std::int64_t kMostPixels = 512;  // under other windows side by side

inline std::int64_t depthwise_columns(const DepthwiseTask& t, std::int64_t pixels) {
  return (pixels - 1) * t.stride_w + (t.kernel_w - 1) * t.dilation_w + 1;
}

// Where the pixels begin that lie under windows side by side, line by line; `zeros` outside the image.
inline void look_up_pixels(const DepthwiseTask& t, const DepthwiseLines& lines, std::int64_t left, std::int64_t columns,
                           const float** pixels) {
  const std::int64_t channels = t.c;
  const float* const zeros = t.zeros;
  const std::int64_t begin = left < 0 ? -left : 0;  // of what lies inside
  const std::int64_t end = t.w - left;
  const bool inside = begin == 0 && end >= columns;
  const float* line = lines.first;
  for (std::int64_t ky = lines.taps.first; ky < lines.taps.last; ++ky, line = lines.after(line), pixels += columns) {
    const float* pixel = line + left * channels;
    for (std::int64_t i = 0; i < columns; ++i, pixel += channels) {
      pixels[i] = inside || (i >= begin && i < end) ? pixel : zeros;
    }
  }
}

// What the loops below read again and again, in a copy that no store can change: vectors may alias anything.
struct DepthwiseBlock {
  const float* const* pixels;  // lines x columns
  std::int64_t first, last;    // lines, of those under all windows
  std::int64_t columns;
  std::int64_t channels;
  std::int64_t height, width;  // of a window
  std::int64_t stride_h, stride_w, dilation;
  const float* packed;
  const float* bias;
  const float* residual;
  float* y;
  std::int64_t row_elements;  // of y and residual
  float lo, hi;
};

// The sums of windows in one or two output rows, side by side.
template <class P, int Rows, int Pixels, int Vectors>
using DepthwiseSums = P[Rows][Pixels][Vectors];

// Adds lines first..last, all of which lie under the windows of the rows FirstRow..LastRow alone. Windows have Width
// columns without dilation: a pixel is loaded once for all that it lies in.
template <class P, int Size, int Rows, int Pixels, int Vectors, int Width, int Stride, int FirstRow, int LastRow>
[[gnu::always_inline]] inline void add_lines(const DepthwiseBlock& b, std::int64_t c, std::int64_t first,
                                             std::int64_t last, DepthwiseSums<P, Rows, Pixels, Vectors>& sums) {
  constexpr int kColumns = (Pixels - 1) * Stride + Width;
  constexpr int kUsed = LastRow - FirstRow;
  const float* w = b.packed + c + (first - FirstRow * b.stride_h) * Width * b.channels;
  const std::int64_t to_next_row = -b.stride_h * Width * b.channels;  // its windows begin stride_h lines later
  const float* const* pixels = b.pixels + (first - b.first) * kColumns;
  for (std::int64_t line = first; line < last; ++line, pixels += kColumns) {
    P weights[kUsed][Width][Vectors];
#pragma GCC unroll 8
    for (int kx = 0; kx < Width; ++kx, w += b.channels) {
#pragma GCC unroll 2
      for (int row = 0; row < kUsed; ++row) {
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) weights[row][kx][v] = ploadu<P>(w + row * to_next_row + v * Size);
      }
    }
#pragma GCC unroll 24
    for (int column = 0; column < kColumns; ++column) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) {
        const P x = ploadu<P>(pixels[column] + c + v * Size);
#pragma GCC unroll 8
        for (int kx = 0; kx < Width; ++kx) {
          const int at = column - kx;
          if (at < 0 || at % Stride != 0 || at / Stride >= Pixels) continue;
#pragma GCC unroll 2
          for (int row = 0; row < kUsed; ++row) {
            P& sum = sums[FirstRow + row][at / Stride][v];
            sum = pmadd(x, weights[row][kx][v], sum);
          }
        }
      }
    }
  }
}

// Of two rows those lines come first that the first row's windows alone have, then what both share.
template <class P, int Size, int Rows, int Pixels, int Vectors, int Width, int Stride>
[[gnu::always_inline]] inline void add_shared_pixels(const DepthwiseBlock& b, std::int64_t c,
                                                     DepthwiseSums<P, Rows, Pixels, Vectors>& sums) {
  if constexpr (Rows == 1) {
    add_lines<P, Size, Rows, Pixels, Vectors, Width, Stride, 0, 1>(b, c, b.first, b.last, sums);
  } else {
    const auto inside = [&b](std::int64_t line) { return line < b.first ? b.first : line > b.last ? b.last : line; };
    const std::int64_t shared = inside(b.stride_h);
    const std::int64_t shared_end = inside(b.height);
    add_lines<P, Size, Rows, Pixels, Vectors, Width, Stride, 0, 1>(b, c, b.first, shared, sums);
    add_lines<P, Size, Rows, Pixels, Vectors, Width, Stride, 0, 2>(b, c, shared, shared_end, sums);
    add_lines<P, Size, Rows, Pixels, Vectors, Width, Stride, 1, 2>(b, c, shared_end, b.last, sums);
  }
}

// Any window. Where all lie inside the image, each line's first pixel tells where the others are: a pointer to read for
// each pixel and tap would take as long as the pixel.
template <class P, int Size, int Pixels, int Vectors, bool Inside>
[[gnu::always_inline]] inline void add_pixels(const DepthwiseBlock& b, std::int64_t c,
                                              DepthwiseSums<P, 1, Pixels, Vectors>& sums) {
  const float* w = b.packed + c + b.first * b.width * b.channels;
  for (std::int64_t line = 0; line < b.last - b.first; ++line) {
    const float* const* pixels = b.pixels + line * (Inside ? 1 : b.columns);
    const float* first = *pixels + c;
    for (std::int64_t kx = 0; kx < b.width; ++kx, w += b.channels) {
      P weights[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) weights[v] = ploadu<P>(w + v * Size);
#pragma GCC unroll 8
      for (int i = 0; i < Pixels; ++i) {
        const float* const pixel = Inside ? first + i * b.stride_w * b.channels : pixels[i * b.stride_w] + c;
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sums[0][i][v] = pmadd(ploadu<P>(pixel + v * Size), weights[v], sums[0][i][v]);
      }
      if constexpr (Inside) {
        first += b.dilation * b.channels;
      } else {
        pixels += b.dilation;
      }
    }
  }
}

template <class P, int Size, int Rows, int Pixels, int Vectors, int Width, int Stride, bool Inside>
[[gnu::always_inline]] inline void depthwise_sums(const DepthwiseBlock& b, std::int64_t c) {
  DepthwiseSums<P, Rows, Pixels, Vectors> sums;
#pragma GCC unroll 2
  for (int v = 0; v < Vectors; ++v) {
    const P begin = ploadu<P>(b.bias + c + v * Size);
#pragma GCC unroll 2
    for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
      for (int i = 0; i < Pixels; ++i) sums[row][i][v] = begin;
    }
  }
  if constexpr (Width > 0) {
    add_shared_pixels<P, Size, Rows, Pixels, Vectors, Width, Stride>(b, c, sums);
  } else {
    static_assert(Rows == 1);
    add_pixels<P, Size, Pixels, Vectors, Inside>(b, c, sums);
  }
  const P lo = pset1<P>(b.lo);
  const P hi = pset1<P>(b.hi);
#pragma GCC unroll 2
  for (int row = 0; row < Rows; ++row) {
    if (b.residual != nullptr) {
      const float* const residual = b.residual + row * b.row_elements + c;
#pragma GCC unroll 8
      for (int i = 0; i < Pixels; ++i) {
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) {
          sums[row][i][v] = padd(sums[row][i][v], ploadu<P>(residual + i * b.channels + v * Size));
        }
      }
    }
    float* const y = b.y + row * b.row_elements + c;
#pragma GCC unroll 8
    for (int i = 0; i < Pixels; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) pstoreu(y + i * b.channels + v * Size, clamp(sums[row][i][v], lo, hi));
    }
  }
}

// Width 0: any window and stride. A function of its own for each form, so that the sums have all registers.
template <class P, int Size, int Rows, int Pixels, int Vectors, int Width, int Stride, bool Inside>
[[gnu::noinline]] void depthwise_block(const DepthwiseTask& t, const DepthwiseLines& lines, std::int64_t ox) {
  constexpr std::int64_t kColumns = (Pixels - 1) * Stride + Width;
  constexpr std::int64_t kLines = kMostHeight + (Rows - 1) * kMostStride;
  const float* pixels[Width > 0 ? kLines * kColumns : kMostPixels];
  const std::int64_t columns = Inside ? 1 : Width > 0 ? kColumns : depthwise_columns(t, Pixels);
  look_up_pixels(t, lines, ox * t.stride_w - t.pad_left, columns, pixels);
  const DepthwiseBlock block{pixels,
                             lines.taps.first,
                             lines.taps.last,
                             columns,
                             t.c,
                             t.kernel_h,
                             t.kernel_w,
                             t.stride_h,
                             t.stride_w,
                             t.dilation_w,
                             t.packed,
                             t.bias,
                             t.residual == nullptr ? nullptr : t.residual + ox * t.c,
                             t.y + ox * t.c,
                             t.out_w * t.c,
                             t.lo,
                             t.hi};
  std::int64_t c = 0;
  if constexpr (Vectors > 1) {
    for (; c + Vectors * Size <= block.channels; c += Vectors * Size) {
      depthwise_sums<P, Size, Rows, Pixels, Vectors, Width, Stride, Inside>(block, c);
    }
  }
  for (; c < block.channels; c += Size) {  // the last one as in depthwise_vectors()
    depthwise_sums<P, Size, Rows, Pixels, 1, Width, Stride, Inside>(
        block, c + Size <= block.channels ? c : block.channels - Size);
  }
}

template <class P, int Size, int Rows, int Vectors, int Width, int Stride, int Pixels>
void depthwise_pixels(const DepthwiseTask& t, const DepthwiseLines& lines, std::int64_t ox, std::int64_t pixels) {
  if constexpr (Pixels > 1) {
    if (pixels < Pixels) {
      return depthwise_pixels<P, Size, Rows, Vectors, Width, Stride, Pixels - 1>(t, lines, ox, pixels);
    }
  }
  if constexpr (Width == 0) {
    const std::int64_t left = ox * t.stride_w - t.pad_left;
    if (left >= 0 && left + depthwise_columns(t, Pixels) <= t.w) {
      return depthwise_block<P, Size, Rows, Pixels, Vectors, Width, Stride, true>(t, lines, ox);
    }
  }
  depthwise_block<P, Size, Rows, Pixels, Vectors, Width, Stride, false>(t, lines, ox);
}

template <class P, int Size, int Rows, int Vectors, int Width, int Stride, int Pixels>
void depthwise_rows(const DepthwiseTask& t, const DepthwiseLines& lines) {
  // As few blocks as can be, of nearly equal width.
  const std::int64_t blocks = (t.out_w + Pixels - 1) / Pixels;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t ox = i * t.out_w / blocks;
    depthwise_pixels<P, Size, Rows, Vectors, Width, Stride, Pixels>(t, lines, ox, (i + 1) * t.out_w / blocks - ox);
  }
}

// The loops know a window's width and stride, and may take two output rows at once.
inline bool knows_window(const DepthwiseTask& t) {
  return t.dilation_h == 1 && t.dilation_w == 1 && t.kernel_h <= kMostHeight && (t.kernel_w == 3 || t.kernel_w == 5) &&
         (t.stride_w == 1 || t.stride_w == 2);
}

template <class P, int Size, int Rows, int Pixels>
void depthwise_known_window(const DepthwiseTask& t, const DepthwiseLines& lines) {
  if (t.kernel_w == 3 && t.stride_w == 1) return depthwise_rows<P, Size, Rows, 1, 3, 1, Pixels>(t, lines);
  if (t.kernel_w == 3) return depthwise_rows<P, Size, Rows, 1, 3, 2, Pixels>(t, lines);
  if (t.stride_w == 1) return depthwise_rows<P, Size, Rows, 1, 5, 1, Pixels>(t, lines);
  depthwise_rows<P, Size, Rows, 1, 5, 2, Pixels>(t, lines);
}

// A row by whole registers, unless its window is too large.
template <class P, int Size>
bool depthwise_registers(const DepthwiseTask& t, const DepthwiseLines& lines) {
  if (knows_window(t)) {
    depthwise_known_window<P, Size, 1, kMostTogether>(t, lines);
  } else if (t.kernel_h * depthwise_columns(t, kMostTogether) > kMostPixels) {
    return false;
  } else if (t.c < 2 * Size) {
    depthwise_rows<P, Size, 1, 1, 0, 1, kMostTogether>(t, lines);
  } else {  // two registers, which the rest of a cache line is for the narrower ones
    depthwise_rows<P, Size, 1, 2, 0, 1, kMostTogetherOfTwo>(t, lines);
  }
  return true;
}

void depthwise_one_row(const DepthwiseTask& t) {
  const DepthwiseLines lines(t, t.kernel_h);
  const bool computed = t.c >= kPacket ? depthwise_registers<Packet, kPacket>(t, lines)
                                       : t.c >= kHalf && depthwise_registers<HalfPacket, kHalf>(t, lines);
  if (!computed) depthwise_any_window(t, lines);
}

// Outputs of each of two rows whose sums leave registers for a pixel and two lines of weights.
constexpr int kPairTogether = EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS >= 32 ? 8 : 4;

// Two rows share lines, which are read from the L2 cache where a row is wide: that takes longer than the sums.
inline bool shares_lines(const DepthwiseTask& t) {
  return knows_window(t) && t.stride_h <= kMostStride && t.stride_h < t.kernel_h && t.c >= kPacket;
}

void depthwise_conv(const DepthwiseTask& task) {
  const bool pairs = shares_lines(task);
  DepthwiseTask t = task;
  std::int64_t taken = 1;
  for (std::int64_t row = 0; row < task.rows; row += taken) {
    t.oy = task.oy + row;
    t.y = task.y + row * t.out_w * t.c;
    if (task.residual != nullptr) t.residual = task.residual + row * t.out_w * t.c;
    taken = pairs && row + 2 <= task.rows ? 2 : 1;
    if (taken == 1) {
      depthwise_one_row(t);
    } else {
      depthwise_known_window<Packet, kPacket, 2, kPairTogether>(t, DepthwiseLines(t, t.kernel_h + t.stride_h));
    }
  }
}

// The pixels under a tile, `zeros` outside the image.
struct WinogradPixels {
  const float* at[4][4];
};

inline WinogradPixels winograd_pixels(const WinogradInputTask& t, std::int64_t tile) {
  WinogradPixels pixels;
  for (int j = 0; j < 4; ++j) {
    const std::int64_t column = t.left + 2 * tile + j;
    const bool inside = column >= 0 && column < t.w;
    for (int i = 0; i < 4; ++i) {
      pixels.at[i][j] = inside && t.lines[i] != nullptr ? t.lines[i] + column * t.stride : t.zeros;
    }
  }
  return pixels;
}

// Four numbers times B^T.
template <class P>
void winograd_differences(P x0, P x1, P x2, P x3, P (&to)[4]) {
  to[0] = psub(x0, x2);
  to[1] = padd(x1, x2);
  to[2] = psub(x2, x1);
  to[3] = psub(x1, x3);
}

template <class P>
void winograd_input_vector(const WinogradPixels& pixels, std::int64_t c, float* v, std::int64_t v_stride) {
  P columns[4][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    winograd_differences(ploadu<P>(pixels.at[0][j] + c), ploadu<P>(pixels.at[1][j] + c), ploadu<P>(pixels.at[2][j] + c),
                         ploadu<P>(pixels.at[3][j] + c), columns[j]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    P row[4];
    winograd_differences(columns[0][i], columns[1][i], columns[2][i], columns[3][i], row);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) pstoreu(v + (4 * i + j) * v_stride + c, row[j]);
  }
}

// The last vector of a pixel begins where it ends with the pixel: its first channels are computed twice.
template <class P, int Size>
void winograd_input_vectors(const WinogradInputTask& t) {
  for (std::int64_t tile = 0; tile < t.tiles; ++tile) {
    const WinogradPixels pixels = winograd_pixels(t, tile);
    float* const v = t.v + tile * t.channels;
    const std::int64_t channels = t.channels;
    const std::int64_t v_stride = t.v_stride;
    for (std::int64_t c = 0; c < channels; c += Size) {
      winograd_input_vector<P>(pixels, c + Size <= channels ? c : channels - Size, v, v_stride);
    }
  }
}

void winograd_input(const WinogradInputTask& t) {
  if (t.channels >= kPacket) return winograd_input_vectors<Packet, kPacket>(t);
  if (t.channels >= kHalf) return winograd_input_vectors<HalfPacket, kHalf>(t);
  if (t.channels >= kQuarter) return winograd_input_vectors<QuarterPacket, kQuarter>(t);
  winograd_input_vectors<float, 1>(t);
}

// Output 0 or 1 of a tile along an axis.
template <class P>
P winograd_sum(int output, P m0, P m1, P m2, P m3) {
  return output == 0 ? padd(padd(m0, m1), m2) : psub(psub(m1, m2), m3);
}

// A tile's outputs of some channels; what is no finite number makes `finite` NaN, else it stays 0.
template <class P>
P winograd_output_vector(const WinogradOutputTask& t, const float* m, std::int64_t at, int columns, P finite) {
  P sums[2][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const P m0 = ploadu<P>(m + j * t.m_stride);
    const P m1 = ploadu<P>(m + (4 + j) * t.m_stride);
    const P m2 = ploadu<P>(m + (8 + j) * t.m_stride);
    const P m3 = ploadu<P>(m + (12 + j) * t.m_stride);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) sums[i][j] = winograd_sum(i, m0, m1, m2, m3);
  }
  const P lo = pset1<P>(t.lo);
  const P hi = pset1<P>(t.hi);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    if (i == t.rows) break;
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      if (j == columns) break;
      P y = winograd_sum(j, sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
      finite = pmadd(y, pset1<P>(0.0F), finite);
      const std::int64_t pixel = at + i * t.row_stride + j * t.stride;
      if (t.residual != nullptr) y = padd(y, ploadu<P>(t.residual + pixel));
      pstoreu(t.y + pixel, clamp(y, lo, hi));
    }
  }
  return finite;
}

template <class P, int Size>
bool winograd_output_vectors(const WinogradOutputTask& task) {
  const WinogradOutputTask t = task;  // a copy that no store can change
  P finite = pset1<P>(0.0F);
  for (std::int64_t tile = 0; tile < t.tiles; ++tile) {
    const float* const m = t.m + tile * t.m_tile;
    const int columns = 2 * tile + 1 < t.columns ? 2 : 1;
    for (std::int64_t c = 0; c < t.n; c += Size) {
      const std::int64_t channel = c + Size <= t.n ? c : t.n - Size;
      finite = winograd_output_vector(t, m + channel, 2 * tile * t.stride + channel, columns, finite);
    }
  }
  float values[Size];
  pstoreu(values, finite);
  bool all = true;
  for (const float value : values) all = all && value == 0.0F;
  return all;
}

bool winograd_output(const WinogradOutputTask& t) {
  if (t.n >= kPacket) return winograd_output_vectors<Packet, kPacket>(t);
  if (t.n >= kHalf) return winograd_output_vectors<HalfPacket, kHalf>(t);
  if (t.n >= kQuarter) return winograd_output_vectors<QuarterPacket, kQuarter>(t);
  return winograd_output_vectors<float, 1>(t);
}

// NaN stays, wherever it comes in.
inline float larger(float best, float x) { return x > best || x != x ? x : best; }

// Vectors of channels side by side: what a window comes to is a chain of dependent steps, which wait for each other.
template <class P, int Size, bool kLargest, int Vectors>
void pool_pixels(const PoolTask& t, std::int64_t c) {
  const P begin = pset1<P>(kLargest ? -__builtin_inff() : 0.0F);
  P result[Vectors], numbers[Vectors];
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) {
    result[v] = begin;
    numbers[v] = pcmp_eq(begin, begin);
  }
  const float* x = t.x + c;
  for (std::int64_t row = 0; row < t.rows; ++row, x += t.row_stride) {
    const float* pixel = x;
    for (std::int64_t column = 0; column < t.columns; ++column, pixel += t.column_stride) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        const P value = ploadu<P>(pixel + v * Size);
        if constexpr (kLargest) {
          // Whatever pmax makes of NaN, the channel is told apart, off the chain.
          result[v] = pmax(value, result[v]);
          numbers[v] = pand(numbers[v], pcmp_eq(value, value));
        } else {
          result[v] = padd(result[v], value);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) {
    const P y =
        kLargest ? pselect(numbers[v], result[v], pset1<P>(__builtin_nanf(""))) : pdiv(result[v], pset1<P>(t.divisor));
    pstoreu(t.y + c + v * Size, y);
  }
}

template <class P, int Size, bool kLargest>
void pool_channels(const PoolTask& t) {
  constexpr int kVectors = 4;
  std::int64_t c = 0;
  for (; c + kVectors * Size <= t.c; c += kVectors * Size) pool_pixels<P, Size, kLargest, kVectors>(t, c);
  for (; c < t.c; c += Size) {
    pool_pixels<P, Size, kLargest, 1>(t, c + Size <= t.c ? c : t.c - Size);  // the last vector ends with the pixel
  }
}

template <class P, int Size>
void pool_vectors(const PoolTask& t) {
  if (t.largest) return pool_channels<P, Size, true>(t);
  pool_channels<P, Size, false>(t);
}

void pool(const PoolTask& t) {
  if (t.c >= kPacket) return pool_vectors<Packet, kPacket>(t);
  if (t.c >= kHalf) return pool_vectors<HalfPacket, kHalf>(t);
  if (t.c >= kQuarter) return pool_vectors<QuarterPacket, kQuarter>(t);
  for (std::int64_t c = 0; c < t.c; ++c) {
    float result = t.largest ? -__builtin_inff() : 0.0F;
    for (std::int64_t row = 0; row < t.rows; ++row) {
      for (std::int64_t column = 0; column < t.columns; ++column) {
        const float x = t.x[row * t.row_stride + column * t.column_stride + c];
        result = t.largest ? larger(result, x) : result + x;
      }
    }
    t.y[c] = t.largest ? result : result / t.divisor;
  }
}

// exp(x) within 1.1 units in the last place where it is a normal number: 2^n exp(r), where |r| <= ln(2) / 2, by the
// polynomial of Cephes' expf. Infinity from 88.4 on, its value at -87.3 below. Eigen's pexp() takes longer, and care
// of what is smaller.
template <class P>
P exponential(P x) {
  using Integers = Eigen::internal::unpacket_traits<P>::integer_packet;
  // Behind the point of a number of this size lie no bits: what is added to it is rounded to an integer, whose bits are
  // its last ones. 127 is the bias of an exponent.
  constexpr float kRound = 12582912.0F + 127.0F;
  x = clamp(x, pset1<P>(-87.3F), pset1<P>(88.8F));
  const P biased = pmadd(x, pset1<P>(1.44269504F), pset1<P>(kRound));
  const P n = psub(biased, pset1<P>(kRound));
  // ln(2) in two parts, the first of few bits: n times it is exact.
  P r = pmadd(n, pset1<P>(-0.693359375F), x);
  r = pmadd(n, pset1<P>(2.12194440e-4F), r);
  P p = pset1<P>(1.9875691500e-4F);
  p = pmadd(p, r, pset1<P>(1.3981999507e-3F));
  p = pmadd(p, r, pset1<P>(8.3334519073e-3F));
  p = pmadd(p, r, pset1<P>(4.1665795894e-2F));
  p = pmadd(p, r, pset1<P>(1.6666665459e-1F));
  p = pmadd(p, r, pset1<P>(5.0000001201e-1F));
  p = padd(pmadd(p, pmul(r, r), r), pset1<P>(1.0F));
  constexpr int kFractionBits = 23;
  return pmul(p, preinterpret<P>(plogical_shift_left<kFractionBits>(preinterpret<Integers>(biased))));
}

// 1 / (1 + exp(-x)). A result below 2^-126 may be any other number below.
inline Packet sigmoid(Packet x) {
  const Packet one = pset1<Packet>(1.0F);
  return pdiv(one, padd(one, exponential(pnegate(x))));
}

// A polynomial's value by Horner's rule, the highest power's factor first.
template <int Count>
Packet polynomial(Packet x, const float (&factors)[Count]) {
  Packet p = pset1<Packet>(factors[0]);
  for (int i = 1; i < Count; ++i) p = pmadd(p, x, pset1<Packet>(factors[i]));
  return p;
}

// Near zero x + x^3 P(x^2), where P was fitted to within 0.03 u of tanh; else 1 - 2 / (exp(2 |x|) + 1), whose quotient
// is a third of it at most and has a third of its error. docs/numerics.md.
inline Packet hyperbolic_tangent(Packet x) {
  constexpr float kNear = 0.75F;
  constexpr float kFactors[] = {1.73693476e-3F,  -7.65725365e-3F, 2.14520339e-2F,
                                -5.38927242e-2F, 1.33326948e-1F,  -3.33333164e-1F};
  const Packet square = pmul(x, x);
  const Packet near = pmadd(pmul(x, square), polynomial(square, kFactors), x);
  const Packet size = pabs(x);
  const Packet one = pset1<Packet>(1.0F);
  const Packet far = psub(one, pdiv(pset1<Packet>(2.0F), padd(one, exponential(padd(size, size)))));
  const Packet zero = pset1<Packet>(0.0F);
  return pselect(pcmp_lt(size, pset1<Packet>(kNear)), near, pselect(pcmp_lt(x, zero), pnegate(far), far));
}

// x times the probability of a standard normal number below x. Below -t that is exp(-t^2 / 2) w P(w) with
// w = 1 / (1 + 0.3 t), where P was fitted to within 0.4 u of it for t up to 13.4; from there on it is below 2^-126 and
// may be any other number below.
inline Packet gelu(Packet x) {
  constexpr float kFactors[] = {-2.05898695e-2F, 1.12246491e-1F, -2.27751404e-1F, 1.91142067e-1F, -7.88648725e-2F,
                                9.58424136e-2F,  7.85039514e-2F, 1.10209607e-1F,  1.19575098e-1F, 1.19686514e-1F};
  const Packet one = pset1<Packet>(1.0F);
  const Packet t = pabs(x);
  const Packet w = pdiv(one, pmadd(t, pset1<Packet>(0.3F), one));
  const Packet size = exponential(pmul(pmul(t, pset1<Packet>(-0.5F)), t));
  const Packet below = pmul(size, pmul(w, polynomial(w, kFactors)));
  return pmul(x, pselect(pcmp_lt(x, pset1<Packet>(0.0F)), below, psub(one, below)));
}

inline Packet gelu_tanh(Packet x) {
  constexpr float kTwice = 1.59576912F;  // 2 sqrt(2 / pi)
  const Packet cubic = pmadd(pmul(x, x), pset1<Packet>(0.044715F), pset1<Packet>(1.0F));
  return pmul(x, sigmoid(pmul(pmul(pset1<Packet>(kTwice), x), cubic)));
}

template <ActivationKind kKind>
Packet activated(Packet x, const Activation& activation) {
  if constexpr (kKind == ActivationKind::Clip) {
    return clamp(x, pset1<Packet>(activation.lo), pset1<Packet>(activation.hi));
  } else if constexpr (kKind == ActivationKind::Sigmoid) {
    return sigmoid(x);
  } else if constexpr (kKind == ActivationKind::Silu) {
    return pmul(x, sigmoid(x));
  } else if constexpr (kKind == ActivationKind::Tanh) {
    return hyperbolic_tangent(x);
  } else if constexpr (kKind == ActivationKind::HardSwish) {
    const Packet shifted = padd(pdiv(x, pset1<Packet>(6.0F)), pset1<Packet>(0.5F));
    return pmul(x, clamp(shifted, pset1<Packet>(0.0F), pset1<Packet>(1.0F)));
  } else {
    static_assert(kKind == ActivationKind::LeakyRelu);
    return pselect(pcmp_lt(x, pset1<Packet>(0.0F)), pmul(pset1<Packet>(activation.alpha), x), x);
  }
}

enum class ElementForm : std::uint8_t { Alone, Sum, Product, ScaleShift };

template <ElementForm kForm>
Packet combined(const float* a, Packet b, Packet c) {
  const Packet x = ploadu<Packet>(a);
  if constexpr (kForm == ElementForm::Sum) return padd(x, b);
  if constexpr (kForm == ElementForm::Product) return pmul(x, b);
  if constexpr (kForm == ElementForm::ScaleShift) return pmadd(x, b, c);
  return x;
}

template <ActivationKind kKind>
struct ActivationFunction {
  const Activation& activation;
  Packet operator()(Packet x) const { return activated<kKind>(x, activation); }
};

template <ElementForm kForm, class Function>
void elements_by(const ElementTask& t, const Function& function) {
  constexpr bool kHasB = kForm != ElementForm::Alone;
  constexpr bool kHasC = kForm == ElementForm::ScaleShift;
  Packet b = pset1<Packet>(kHasB ? *t.b : 0.0F);
  Packet c = pset1<Packet>(kHasC ? *t.c : 0.0F);
  std::int64_t i = 0;
  for (; i + kPacket <= t.n; i += kPacket) {
    if (kHasB && !t.repeat) b = ploadu<Packet>(t.b + i);
    if (kHasC && !t.repeat) c = ploadu<Packet>(t.c + i);
    pstoreu(t.y + i, function(combined<kForm>(t.a + i, b, c)));
  }
  if (i == t.n) return;
  // The last ones by the same instructions.
  float values[3][kPacket] = {};
  for (std::int64_t k = 0; i + k < t.n; ++k) {
    values[0][k] = t.a[i + k];
    if (kHasB && !t.repeat) values[1][k] = t.b[i + k];
    if (kHasC && !t.repeat) values[2][k] = t.c[i + k];
  }
  if (kHasB && !t.repeat) b = ploadu<Packet>(values[1]);
  if (kHasC && !t.repeat) c = ploadu<Packet>(values[2]);
  pstoreu(values[0], function(combined<kForm>(values[0], b, c)));
  for (std::int64_t k = 0; i + k < t.n; ++k) t.y[i + k] = values[0][k];
}

template <ElementForm kForm, ActivationKind kKind>
void elements_of(const ElementTask& t) {
  elements_by<kForm>(t, ActivationFunction<kKind>{t.activation});
}

template <ElementForm kForm>
void elements_of(const ElementTask& t) {
  switch (t.activation.kind) {
    case ActivationKind::Clip:
      return elements_of<kForm, ActivationKind::Clip>(t);
    case ActivationKind::Sigmoid:
      return elements_of<kForm, ActivationKind::Sigmoid>(t);
    case ActivationKind::Silu:
      return elements_of<kForm, ActivationKind::Silu>(t);
    case ActivationKind::HardSwish:
      return elements_of<kForm, ActivationKind::HardSwish>(t);
    case ActivationKind::LeakyRelu:
      return elements_of<kForm, ActivationKind::LeakyRelu>(t);
    case ActivationKind::Tanh:
      return elements_of<kForm, ActivationKind::Tanh>(t);
    case ActivationKind::Elu:
      break;  // !is_vectorised()
  }
}

void elements(const ElementTask& t) {
  if (t.function == ElementFunction::Gelu) {
    return elements_by<ElementForm::Alone>(t, [](Packet x) { return gelu(x); });
  }
  if (t.function == ElementFunction::GeluTanh) {
    return elements_by<ElementForm::Alone>(t, [](Packet x) { return gelu_tanh(x); });
  }
  if (t.b == nullptr) return elements_of<ElementForm::Alone>(t);
  if (t.c != nullptr) return elements_of<ElementForm::ScaleShift>(t);
  if (t.multiply) return elements_of<ElementForm::Product>(t);
  elements_of<ElementForm::Sum>(t);
}

}  // namespace
}  // namespace mobicuda::cpu
