#include "baselines/cpu/fp32_layers.h"

#include <algorithm>
#include <cmath>

#include "baselines/cpu/ops/depthwise_conv.h"
#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/ops/gemm.h"

namespace mobicuda::cpu {
namespace {

// Where partial sums wait in y, as few rows as leave them in the L2 cache.
constexpr std::int64_t kLeastRows = 24;
constexpr std::int64_t kBlockSums = 65536;
// Panels for which zeros are looked for at once.
constexpr std::int64_t kPanelsTogether = 3;
constexpr std::int64_t kShortRun = 64;  // the values of a window's row that are one run together

WindowGeometry window_geometry(const Conv2d& op, const NodeView& view) {
  const Shape& x = view.desc(Conv2d::kInput).shape;
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  const Shape& out = view.output_desc().shape;
  WindowGeometry g;
  g.h = x[2];
  g.w = x[3];
  g.c = x[1];
  g.out_h = out[2];
  g.out_w = out[3];
  g.kernel_h = weight[2];
  g.kernel_w = weight[3];
  g.stride_h = op.strides[0];
  g.stride_w = op.strides[1];
  g.dilation_h = op.dilations[0];
  g.dilation_w = op.dilations[1];
  g.pad_top = op.pads.top;
  g.pad_left = op.pads.left;
  if (op.groups == 1 && g.dilation_w == 1 && g.c * g.kernel_w <= kShortRun) g.run_taps = g.kernel_w;
  return g;
}

// One PackedGemm for each group, with k in the order (ky, kx, channel).
std::vector<PackedGemm> pack_groups(const Conv2d& op, const NodeView& view, const WindowGeometry& geometry) {
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  const std::int64_t channels = weight[1];
  const std::int64_t taps = geometry.kernel_h * geometry.kernel_w;
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(taps * channels));
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t channel = 0; channel < channels; ++channel) order.push_back(channel * taps + tap);
  }
  const std::int64_t outputs = weight[0] / op.groups;
  std::vector<PackedGemm> groups;
  for (std::int64_t group = 0; group < op.groups; ++group) {
    groups.emplace_back(view, group * outputs, outputs, geometry.runs(), geometry.run_taps * channels, order.data());
  }
  return groups;
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// Fewer outputs take a register or two, whose sums would wait for each other.
constexpr std::int64_t kFewestOutputs = 32;

bool leaves_zeros(const NodeView& view, std::int64_t outputs, ZeroProducts zeros) {
  if (zeros != ZeroProducts::LeftOutWhereLikely) return zeros == ZeroProducts::LeftOut;
  return outputs >= kFewestOutputs && view.has_zeros;
}

}  // namespace

void activate_block(const Activation& activation, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    float* y) {
  if (columns == stride) return activate_floats(activation, y, rows * columns);
  for (std::int64_t row = 0; row < rows; ++row) activate_floats(activation, y + row * stride, columns);
}

PackedGemm::PackedGemm(const NodeView& view, std::int64_t first, std::int64_t outputs, std::int64_t window,
                       std::int64_t inputs, const std::int64_t* order)
    : n(outputs),
      taps(window),
      channels(inputs),
      panel(view.kernels->gemm_panel(outputs)),
      panels(ceil_div(outputs, panel)) {
  const std::int64_t k = taps * channels;
  weight = view.weights.pack(gemm_packed_elements(n, k, panel), [&](float* to) {
    gemm_pack(n, k, panel, view.constant(Conv2d::kWeight).data() + first * k, order, to);
  });
  bias = view.weights.pack(panels * panel + 1, [&](float* to) {
    const std::span<const float> all = view.constant(Conv2d::kBias);
    if (!all.empty()) std::copy_n(all.data() + first, outputs, to);
    to[panels * panel] = all_finite({weight.data(), static_cast<std::size_t>(weight.bytes() / kFloatBytes)}) ? 1 : 0;
  });
}

Product::Product(const Conv2d& op, const NodeView& view, ZeroProducts zeros)
    : kernels_(view.kernels),
      activation_(op.activation),
      leaves_zeros_(leaves_zeros(view, view.desc(Conv2d::kWeight).shape[0] / op.groups, zeros)) {
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  const Shape& out = view.output_desc().shape;
  image_rows_ = out[2] * out[3];
  if (is_pointwise(op, weight)) {
    groups_.emplace_back(view, 0, weight[0], 1, weight[1], nullptr);
  } else {
    window_ = window_geometry(op, view);
    groups_ = pack_groups(op, view, *window_);
  }
  stride_ = view.output_stride > 0 ? view.output_stride : columns();
}

Product::Product(const Gemm& op, const NodeView& view, ZeroProducts zeros)
    : kernels_(view.kernels),
      activation_(op.activation),
      leaves_zeros_(leaves_zeros(view, view.desc(Gemm::kWeight).shape[0], zeros)) {
  const Shape& weight = view.desc(Gemm::kWeight).shape;
  groups_.emplace_back(view, 0, weight[0], 1, weight[1], nullptr);
  stride_ = columns();
}

std::int64_t Product::weight_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (const PackedGemm& gemm : groups_) bytes += gemm.bytes();
  return bytes;
}

std::int64_t Product::most_rows() const noexcept {
  if (shape().taps * shape().channels <= kLongestSum) return kMostBlockRows;
  return std::clamp(kBlockSums / shape().n / kLeastRows * kLeastRows, kLeastRows, kMostBlockRows);
}

// A thread's scratch memory: GemmTask::x, then what window_runs() needs.
std::int64_t Product::pointer_elements() const noexcept { return most_rows() * shape().taps * kPointerFloats; }

std::int64_t Product::scratch_bytes() const {
  const std::int64_t windows = window_ ? window_->scratch_elements(most_rows()) : 0;
  return checked_multiply(pointer_elements() + windows, kFloatBytes);
}

// Writes GemmTask::x of these rows to the front of `scratch`.
void Product::point(const float* x, Range rows, float* scratch) const {
  auto* runs = reinterpret_cast<const float**>(scratch);
  if (window_) return window_runs(*window_, x, rows, scratch + pointer_elements(), runs);
  for (std::int64_t row = rows.first; row < rows.last; ++row) *runs++ = x + row * shape().channels;
}

// All but where outputs go, for the rows that `scratch` points to.
GemmTask Product::task_of(std::int64_t group, std::int64_t rows, Range panels, const float* scratch) const {
  const PackedGemm& gemm = groups_[static_cast<std::size_t>(group)];
  GemmTask task;
  task.x = reinterpret_cast<const float* const*>(scratch);
  task.x_rows = rows;
  task.x_offset = group * gemm.channels;
  task.taps = gemm.taps;
  task.channels = gemm.channels;
  task.packed = gemm.weight.data();
  task.bias = gemm.bias.data();
  task.rows = rows;
  task.n = gemm.n;
  task.panel = gemm.panel;
  task.first_panel = panels.first;
  task.last_panel = panels.last;
  // Behind the last panels: the next layer's weights, in most networks.
  task.next = gemm.weight.data() + panels.last * gemm.panel * gemm.taps * gemm.channels;
  task.unsigned_zeros = leaves_zeros_;
  return task;
}

// Some panels of one group, for the rows that `scratch` points to.
void Product::run_block(std::int64_t group, std::int64_t rows, Range panels, const Tensors& first_row,
                        const float* scratch) const {
  GemmTask task = task_of(group, rows, panels, scratch);
  const std::int64_t first_column = group * task.n;
  if (first_row.residual != nullptr) task.residual = first_row.residual + first_column;
  task.y = first_row.y + first_column;
  task.y_stride = stride();
  task.lo = activation_.lo;
  task.hi = activation_.hi;
  // A weight that is not finite makes NaN of zeros.
  (leaves_zeros_ && groups_[static_cast<std::size_t>(group)].is_finite() ? kernels_->gemm_nonzero
                                                                         : kernels_->gemm)(task);
  const std::int64_t begin = panels.first * task.panel;
  const std::int64_t end = std::min(panels.last * task.panel, task.n);
  activate_block(activation_, rows, end - begin, task.y_stride, task.y + begin);
}

void Product::sum_rows(std::int64_t group, Range rows, Range panels, const float* x, float* sums,
                       std::int64_t sums_stride, float* scratch) const {
  point(x, rows, scratch);
  GemmTask task = task_of(group, rows.last - rows.first, {0, panels.last - panels.first}, scratch);
  const std::int64_t first = panels.first * task.panel;
  task.packed += first * task.taps * task.channels;
  task.next += first * task.taps * task.channels;
  task.bias += first;
  task.n -= first;
  task.y = sums;
  task.y_stride = sums_stride;
  task.lo = Activation::none().lo;
  task.hi = Activation::none().hi;
  kernels_->gemm(task);
}

void Product::run_rows(Range rows, const Tensors& tensors, float* scratch) const {
  const std::int64_t count = rows.last - rows.first;
  const std::int64_t blocks = ceil_div(count, most_rows());
  for (std::int64_t i = 0; i < blocks; ++i) {
    const Range block = part_of(count, i, blocks);
    point(tensors.x, {rows.first + block.first, rows.first + block.last}, scratch);
    const std::int64_t at = block.first * stride();
    const Tensors first_row{nullptr, tensors.residual == nullptr ? nullptr : tensors.residual + at, tensors.y + at};
    for (std::int64_t group = 0; group < std::ssize(groups_); ++group) {
      run_block(group, block.last - block.first, {0, shape().panels}, first_row, scratch);
    }
  }
}

// Blocks of rows and groups and, where these are few, of panels; where that is too few still, of fewer rows.
void Product::run(const StepContext& context, const Tensors& tensors) const {
  const std::int64_t rows = context.n * image_rows_;
  const std::int64_t groups = std::ssize(groups_);
  const std::int64_t wanted = kBlocksPerThread * context.pool.threads();
  const std::int64_t most_panel_blocks =
      leaves_zeros_ ? std::max<std::int64_t>(shape().panels / kPanelsTogether, 1) : shape().panels;
  std::int64_t row_blocks = ceil_div(rows, most_rows());
  if (context.pool.threads() > 1 && row_blocks * groups * most_panel_blocks < wanted) {
    row_blocks = std::max(row_blocks, std::min(ceil_div(wanted, groups * most_panel_blocks), rows / kLeastRows));
  }
  const std::int64_t panel_blocks =
      context.pool.threads() == 1
          ? 1
          : std::clamp<std::int64_t>(ceil_div(wanted, row_blocks * groups), 1, most_panel_blocks);
  const std::int64_t parts = groups * panel_blocks;
  const std::int64_t blocks = row_blocks * parts;
  const auto run_range = [&](std::int64_t first, std::int64_t last, int worker) {
    float* const scratch = context.scratch(worker);
    std::int64_t pointed = -1;  // the block of rows that `scratch` points to
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t row_block = block / parts;
      const Range block_rows = part_of(rows, row_block, row_blocks);
      if (pointed != row_block) point(tensors.x, block_rows, scratch);
      pointed = row_block;
      const std::int64_t at = block_rows.first * stride();
      run_block(block % parts / panel_blocks, block_rows.last - block_rows.first,
                part_of(shape().panels, block % panel_blocks, panel_blocks),
                {nullptr, tensors.residual == nullptr ? nullptr : tensors.residual + at, tensors.y + at}, scratch);
    }
  };
  context.pool.for_ranges(blocks, std::max<std::int64_t>(blocks / wanted / 4, 1), run_range);
}

Depthwise::Depthwise(const Conv2d& op, const NodeView& view) : kernels_(view.kernels), activation_(op.activation) {
  const Shape& x = view.desc(Conv2d::kInput).shape;
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  const Shape& out = view.output_desc().shape;
  weight_ = view.weights.pack(
      weight.elements(), [&](float* to) { depthwise_conv_pack(weight, view.constant(Conv2d::kWeight).data(), to); });
  bias_and_zeros_ = view.weights.pack(checked_multiply(2, weight[0]), [&](float* to) {
    std::fill_n(std::ranges::copy(view.constant(Conv2d::kBias), to).out, weight[0], 0.0F);
  });
  out_h_ = out[2];
  shape_.packed = weight_.data();
  shape_.bias = bias_and_zeros_.data();
  shape_.zeros = shape_.bias + weight[0];
  shape_.h = x[2];
  shape_.ring = shape_.h;
  shape_.w = x[3];
  shape_.c = weight[0];
  shape_.out_w = out[3];
  shape_.kernel_h = weight[2];
  shape_.kernel_w = weight[3];
  shape_.stride_h = op.strides[0];
  shape_.stride_w = op.strides[1];
  shape_.dilation_h = op.dilations[0];
  shape_.dilation_w = op.dilations[1];
  shape_.pad_top = op.pads.top;
  shape_.pad_left = op.pads.left;
  shape_.lo = op.activation.lo;
  shape_.hi = op.activation.hi;
}

Range Depthwise::window_of(Range rows) const noexcept {
  const std::int64_t first = rows.first * shape_.stride_h - shape_.pad_top;
  const std::int64_t last = first + (rows.last - rows.first - 1) * shape_.stride_h + reach();
  return {std::clamp<std::int64_t>(first, 0, shape_.h), std::clamp<std::int64_t>(last, 0, shape_.h)};
}

std::int64_t Depthwise::most_window_rows(std::int64_t rows) const noexcept {
  return std::min((rows - 1) * shape_.stride_h + reach(), shape_.h);
}

// Rows from a window's first to its last.
std::int64_t Depthwise::reach() const noexcept { return (shape_.kernel_h - 1) * shape_.dilation_h + 1; }

void Depthwise::run_rows(Range rows, const float* x, std::int64_t ring, const float* residual, float* y) const {
  DepthwiseTask task = shape_;
  task.x = x;
  task.ring = ring;
  task.oy = rows.first;
  task.rows = rows.last - rows.first;
  task.residual = residual;
  task.y = y;
  kernels_->depthwise_conv(task);
  activate_block(activation_, task.rows, row_elements(), row_elements(), y);
}

std::string with_isa(const std::string& loops, const NodeView& view) { return loops + "/" + view.kernels->name; }

}  // namespace mobicuda::cpu
