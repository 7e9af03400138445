#include "baselines/cpu/winograd.h"

#include <algorithm>
#include <cmath>

#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/ops/gemm.h"

namespace mobicuda::cpu {
namespace {

constexpr std::int64_t kLeastTiles = 8;  // of a block for a thread, where tiles are few
// Tiles of a block: as many as leave what is computed of them in the L2 cache, but so many that reading the weights for
// them takes less time than the products.
constexpr std::int64_t kBlockBytes = std::int64_t{512} << 10;
constexpr std::int64_t kFewestBlockTiles = 56, kMostBlockTiles = 96;
constexpr std::int64_t kBlockPanels = 4;  // for which the products of a block are there at once

// Costs in multiply-adds, measured: docs/cpu_engine.md. What the two transforms take for a channel of a tile.
constexpr double kTransform = 100;
constexpr std::int64_t kFewestChannels = 8;  // fewer make sums that begin and end more often than they add
// Weights of this size do not stay in a cache from one image to the next. While they are read, so many tiles or pixels
// can be computed.
constexpr std::int64_t kFarWeights = std::int64_t{512} << 10;
constexpr std::int64_t kReadTime = 16;
constexpr std::int64_t kLine = 16;  // of a cache line

constexpr std::int64_t whole_lines(std::int64_t floats) { return ceil_div(floats, kLine) * kLine; }

// G times three numbers.
void filter_sums(double g0, double g1, double g2, double (&to)[4]) {
  to[0] = g0;
  to[1] = (g0 + g1 + g2) / 2;
  to[2] = (g0 - g1 + g2) / 2;
  to[3] = g2;
}

float output_sum(std::int64_t output, float m0, float m1, float m2, float m3) {
  return output == 0 ? (m0 + m1) + m2 : (m1 - m2) - m3;
}

// What winograd_output() has for output i, j of a tile before it adds the residual.
float output_of(const float* m, std::int64_t stride, std::int64_t i, std::int64_t j) {
  float sums[4];
  for (std::int64_t column = 0; column < 4; ++column) {
    const float* const at = m + column * stride;
    sums[column] = output_sum(i, at[0], at[4 * stride], at[8 * stride], at[12 * stride]);
  }
  return output_sum(j, sums[0], sums[1], sums[2], sums[3]);
}

}  // namespace

bool winograd_is_faster(const WinogradShape& shape) {
  if (shape.channels < kFewestChannels) return false;
  const auto weights = static_cast<double>(shape.channels) * static_cast<double>(shape.outputs);
  const auto cost = [&](std::int64_t items, std::int64_t products) {
    const bool far = weights * static_cast<double>(products * kFloatBytes) > static_cast<double>(kFarWeights);
    return weights * static_cast<double>(products * (far ? std::max(items, kReadTime) : items));
  };
  const double transforms = kTransform * static_cast<double>(shape.tiles()) *
                            static_cast<double>(shape.parts() * shape.channels + shape.outputs);
  return cost(shape.tiles(), winograd_products(shape.kernel)) + transforms <
         cost(shape.out_h * shape.out_w, shape.kernel * shape.kernel);
}

bool takes_winograd(const Conv2d& op, const NodeView& view) {
  if (view.winograd == WinogradUse::Never) return false;
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  if ((weight[2] != 3 && weight[2] != 5) || weight[3] != weight[2] || op.strides != decltype(op.strides){1, 1} ||
      op.dilations != decltype(op.dilations){1, 1}) {
    return false;
  }
  if (view.winograd == WinogradUse::WherePossible) return true;
  const Shape& out = view.output_desc().shape;
  return winograd_is_faster({out[2], out[3], weight[1], weight[0] / op.groups, weight[2]});
}

void winograd_pack(std::int64_t outputs, std::int64_t channels, std::int64_t kernel, std::int64_t panel,
                   const float* weight, float* packed) {
  const auto transformed = [&](const float* filter, const WinogradPart& part, double(&u)[4][4]) {
    double columns[3][4];
    const auto tap = [&](std::int64_t i, std::int64_t j) {
      const bool inside = part.row + i < kernel && part.column + j < kernel;
      return inside ? static_cast<double>(filter[(part.row + i) * kernel + part.column + j]) : 0.0;
    };
    for (std::int64_t j = 0; j < 3; ++j) filter_sums(tap(0, j), tap(1, j), tap(2, j), columns[j]);
    for (std::int64_t i = 0; i < 4; ++i) filter_sums(columns[0][i], columns[1][i], columns[2][i], u[i]);
  };
  const std::int64_t matrix = gemm_packed_elements(outputs, channels, panel);
  for (std::int64_t first = 0; first < outputs; first += panel) {
    for (std::int64_t output = first; output < std::min(first + panel, outputs); ++output) {
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const float* const filter = weight + (output * channels + channel) * kernel * kernel;
        double u[std::size(kWinogradParts)][4][4];
        const Range all = winograd_parts(kernel, 0);
        for (std::int64_t part = all.first; part < all.last; ++part) {
          transformed(filter, kWinogradParts[part], u[part]);
        }
        float* to = packed;
        for (std::int64_t number = 0; number < kWinogradNumbers; ++number) {
          const Range parts = winograd_parts(kernel, number);
          const std::int64_t count = parts.last - parts.first;
          for (std::int64_t part = 0; part < count; ++part) {
            to[(first * count + part * panel) * channels + channel * panel + output - first] =
                static_cast<float>(u[parts.first + part][number / 4][number % 4]);
          }
          to += count * matrix;
        }
      }
    }
  }
}

Winograd::Winograd(const Conv2d& op, const NodeView& view)
    : direct_(op, view, ZeroProducts::Computed), kernels_(view.kernels), activation_(op.activation) {
  const Shape& x = view.desc(Conv2d::kInput).shape;
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  const Shape& out = view.output_desc().shape;
  shape_ = {out[2], out[3], weight[1], weight[0] / op.groups, weight[2]};
  h_ = x[2];
  w_ = x[3];
  c_ = x[1];
  pad_top_ = op.pads.top;
  pad_left_ = op.pads.left;
  const std::int64_t panel = view.kernels->gemm_panel(shape_.outputs);
  const std::int64_t panels = ceil_div(shape_.outputs, panel);
  block_panels_ = std::min(kBlockPanels, panels);
  const std::int64_t tile_bytes =
      kWinogradNumbers * kFloatBytes * (shape_.parts() * shape_.channels + block_panels_ * panel);
  block_tiles_ = std::clamp(kBlockBytes / tile_bytes, kFewestBlockTiles, kMostBlockTiles);
  place_scratch();
  for (std::int64_t group = 0; group < op.groups; ++group) {
    const std::int64_t elements = checked_multiply(winograd_products(shape_.kernel),
                                                   gemm_packed_elements(shape_.outputs, shape_.channels, panel));
    const std::int64_t filters = shape_.outputs * shape_.channels * shape_.kernel * shape_.kernel;
    weights_.push_back(view.weights.pack(elements, [&](float* to) {
      winograd_pack(shape_.outputs, shape_.channels, shape_.kernel, panel,
                    view.constant(Conv2d::kWeight).data() + group * filters, to);
    }));
  }
}

std::int64_t Winograd::weight_bytes() const noexcept {
  std::int64_t bytes = direct_.weight_bytes();
  for (const PackedWeights& weights : weights_) bytes += weights.bytes();
  return bytes;
}

// A line more than whole lines: numbers of a tile would else take the same places of a cache.
std::int64_t Winograd::v_stride() const noexcept { return whole_lines(block_tiles_ * shape_.channels) + kLine; }
std::int64_t Winograd::m_stride() const noexcept { return whole_lines(block_tiles_ * m_columns()) + kLine; }
std::int64_t Winograd::m_columns() const noexcept { return block_panels_ * direct_.group(0).panel; }

void Winograd::place_scratch() {
  std::int64_t end = 0;
  const auto place = [&](std::int64_t elements) {
    const std::int64_t at = end;
    end += whole_lines(elements);
    return at;
  };
  place(shape_.parts() * block_tiles_ * kPointerFloats);
  zeros_ = place(shape_.channels);
  v_ = place(checked_multiply(shape_.parts() * kWinogradNumbers, v_stride()));
  m_ = place(checked_multiply(kWinogradNumbers, m_stride()));
  sums_ = place(checked_multiply(direct_.most_rows(), m_columns()));
  product_ = end;
}

Winograd::Scratch Winograd::scratch_at(float* memory) const {
  return {reinterpret_cast<const float**>(memory),
          memory + zeros_,
          memory + v_,
          memory + m_,
          memory + sums_,
          memory + product_};
}

std::int64_t Winograd::scratch_bytes() const {
  return checked_multiply(product_, kFloatBytes) + direct_.scratch_bytes();
}

template <class Visit>
void Winograd::for_runs(Range tiles, const Visit& visit) const {
  for (std::int64_t tile = tiles.first; tile < tiles.last;) {
    TileRun run{};
    run.first = tile;
    run.image = tile / shape_.tiles();
    run.row = tile % shape_.tiles() / shape_.tile_columns();
    run.column = tile % shape_.tile_columns();
    run.count = std::min(tiles.last - tile, shape_.tile_columns() - run.column);
    visit(run);
    tile += run.count;
  }
}

// Numbers of a part follow those of the part before, and so do the rows.
void Winograd::transform(Range tiles, std::int64_t group, const float* x, const Scratch& scratch) const {
  const std::int64_t rows = tiles.last - tiles.first;
  std::fill_n(scratch.zeros, shape_.channels, 0.0F);
  for (std::int64_t part = 0; part < shape_.parts(); ++part) {
    float* const v = scratch.v + part * kWinogradNumbers * v_stride();
    for (std::int64_t i = 0; i < rows; ++i) scratch.rows[part * rows + i] = v + i * shape_.channels;
    const WinogradPart& begin = kWinogradParts[winograd_parts(shape_.kernel, 0).first + part];
    for_runs(tiles, [&](const TileRun& run) {
      WinogradInputTask task;
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t line = 2 * run.row - pad_top_ + begin.row + i;
        if (line < 0 || line >= h_) continue;
        task.lines[i] = x + (run.image * h_ + line) * w_ * c_ + group * shape_.channels;
      }
      task.zeros = scratch.zeros;
      task.w = w_;
      task.stride = c_;
      task.left = 2 * run.column - pad_left_ + begin.column;
      task.tiles = run.count;
      task.channels = shape_.channels;
      task.v = v + (run.first - tiles.first) * shape_.channels;
      task.v_stride = v_stride();
      kernels_->winograd_input(task);
    });
  }
}

// The bias joins the number that all outputs of a tile have with factor 1.
void Winograd::multiply(std::int64_t tiles, std::int64_t group, Range panels, const Scratch& scratch) const {
  constexpr std::int64_t kInAll = 5;
  const PackedGemm& gemm = direct_.group(group);
  const std::int64_t panel = gemm.panel * shape_.channels;  // of one part
  GemmTask task;
  task.x_rows = tiles;
  task.channels = shape_.channels;
  task.y_stride = m_columns();
  task.rows = tiles;
  task.n = gemm.n - panels.first * gemm.panel;
  task.panel = gemm.panel;
  task.last_panel = panels.last - panels.first;
  task.lo = Activation::none().lo;
  task.hi = Activation::none().hi;
  const std::int64_t first_part = winograd_parts(shape_.kernel, 0).first;
  const float* packed = weights_[static_cast<std::size_t>(group)].data();
  for (std::int64_t i = 0; i < kWinogradNumbers; ++i) {
    const Range parts = winograd_parts(shape_.kernel, i);
    task.taps = parts.last - parts.first;
    task.x = scratch.rows + (parts.first - first_part) * tiles;
    task.x_offset = i * v_stride();
    task.packed = packed + panels.first * task.taps * panel;
    packed += gemm.panels * task.taps * panel;
    if (i + 1 < kWinogradNumbers) {
      const Range next = winograd_parts(shape_.kernel, i + 1);
      task.next = packed + panels.first * (next.last - next.first) * panel;
    } else {
      task.next = nullptr;
    }
    task.bias = i == kInAll ? gemm.bias.data() + panels.first * gemm.panel : nullptr;
    task.y = scratch.m + i * m_stride();
    kernels_->gemm(task);
  }
}

void Winograd::finish(Range tiles, std::int64_t group, Range panels, const Product::Tensors& tensors,
                      const Scratch& scratch) const {
  const std::int64_t first = panels.first * direct_.group(group).panel;
  WinogradOutputTask task;
  task.m_stride = m_stride();
  task.m_tile = m_columns();
  task.stride = direct_.stride();
  task.row_stride = shape_.out_w * task.stride;
  task.n = std::min(panels.last * direct_.group(group).panel, shape_.outputs) - first;
  task.lo = activation_.lo;
  task.hi = activation_.hi;
  for_runs(tiles, [&](const TileRun& run) {
    const std::int64_t pixel = (run.image * shape_.out_h + 2 * run.row) * shape_.out_w + 2 * run.column;
    const std::int64_t at = pixel * task.stride + group * shape_.outputs + first;
    task.m = scratch.m + (run.first - tiles.first) * task.m_tile;
    task.residual = tensors.residual == nullptr ? nullptr : tensors.residual + at;
    task.y = tensors.y + at;
    task.rows = std::min<std::int64_t>(shape_.out_h - 2 * run.row, 2);
    task.columns = std::min(shape_.out_w - 2 * run.column, 2 * run.count);
    task.tiles = run.count;
    if (!kernels_->winograd_output(task)) replace(run, task, group, panels, tensors.x, scratch);
    for (std::int64_t row = 0; row < task.rows; ++row) {
      activate_block(activation_, task.columns, task.n, task.stride, task.y + row * task.row_stride);
    }
  });
}

// Each output by itself, so that none's bits depend on how tiles are cut.
void Winograd::replace(const TileRun& run, const WinogradOutputTask& task, std::int64_t group, Range panels,
                       const float* x, const Scratch& scratch) const {
  for (std::int64_t i = 0; i < task.rows; ++i) {
    const std::int64_t row = ((run.image * shape_.out_h + 2 * run.row + i) * shape_.out_w) + 2 * run.column;
    for (std::int64_t first = 0; first < task.columns; first += direct_.most_rows()) {
      const std::int64_t last = std::min(first + direct_.most_rows(), task.columns);
      direct_.sum_rows(group, {row + first, row + last}, panels, x, scratch.sums, task.n, scratch.product);
      for (std::int64_t column = first; column < last; ++column) {
        const std::int64_t at = i * task.row_stride + column * task.stride;
        for (std::int64_t c = 0; c < task.n; ++c) {
          const float* const m = task.m + column / 2 * task.m_tile + c;
          if (std::isfinite(output_of(m, task.m_stride, i, column % 2))) continue;
          float y = scratch.sums[(column - first) * task.n + c];
          if (task.residual != nullptr) y += task.residual[at + c];
          task.y[at + c] = clip_to(y, task.lo, task.hi);
        }
      }
    }
  }
}

void Winograd::run(const StepContext& context, const Product::Tensors& tensors) const {
  const std::int64_t tiles = context.n * shape_.tiles();
  const std::int64_t groups = direct_.groups();
  const std::int64_t panels = direct_.group(0).panels;
  const std::int64_t wanted = context.pool.threads() == 1 ? 1 : kBlocksPerThread * context.pool.threads();
  std::int64_t blocks = ceil_div(tiles, block_tiles_);
  if (blocks * groups * panels < wanted) {
    blocks = std::max(blocks, std::min(ceil_div(wanted, groups * panels), tiles / kLeastTiles));
  }
  const std::int64_t parts = std::clamp(ceil_div(wanted, blocks * groups), ceil_div(panels, block_panels_), panels);
  const std::int64_t items = blocks * groups * parts;
  // A range transforms its blocks' inputs anew: all parts of a block together, where there are blocks for all threads.
  const std::int64_t grain = blocks * groups >= wanted ? parts : 1;
  const auto run_range = [&](std::int64_t first, std::int64_t last, int worker) {
    const Scratch scratch = scratch_at(context.scratch(worker));
    std::int64_t transformed = -1;  // the block and group of scratch.v
    for (std::int64_t item = first; item < last; ++item) {
      const Range block = part_of(tiles, item / parts / groups, blocks);
      const std::int64_t group = item / parts % groups;
      const Range some = part_of(panels, item % parts, parts);
      if (item / parts != transformed) transform(block, group, tensors.x, scratch);
      transformed = item / parts;
      multiply(block.last - block.first, group, some, scratch);
      finish(block, group, some, tensors, scratch);
    }
  };
  context.pool.for_ranges(items, grain, run_range);
}

}  // namespace mobicuda::cpu
