#include <algorithm>
#include <utility>
#include <vector>

#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/conv2d.h"
#include "baselines/cpu/ops/depthwise_conv.h"
#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/ops/fp32_kernels.h"
#include "baselines/cpu/ops/gemm.h"

namespace mobicuda::cpu {
namespace {

constexpr std::int64_t kBlocksPerThread = 4;  // so that a slow thread holds the others up little
// A block of rows: whole tiles of every instruction set, as many as leave partial sums in the L2 cache.
constexpr std::int64_t kMostRows = 96;
constexpr std::int64_t kLeastRows = 24;
constexpr std::int64_t kBlockSums = 65536;
constexpr std::int64_t kShortRun = 64;  // the values of a window's row that are one run together
constexpr std::int64_t kPointerBytes = sizeof(const float*);
constexpr std::int64_t kFloatBytes = sizeof(float);

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The kernels clip; other activations follow on the block that they have just written.
void activate_block(const Activation& activation, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    float* y) {
  if (columns == stride) return activate_floats(activation, y, rows * columns);
  for (std::int64_t row = 0; row < rows; ++row) activate_floats(activation, y + row * stride, columns);
}

// A weight (n, taps * channels) and its bias, packed for this processor's kernels.
struct PackedGemm {
  PackedWeights weight;
  PackedWeights bias;
  std::int64_t n = 0;
  std::int64_t taps = 1;
  std::int64_t channels = 0;
  std::int64_t panel = 0;
  std::int64_t panels = 0;

  /// Outputs `first` to first + outputs of a node's weight and bias, which have the same positions in Conv2d and Gemm.
  PackedGemm(const NodeView& view, std::int64_t first, std::int64_t outputs, std::int64_t window, std::int64_t inputs,
             const std::int64_t* order)
      : n(outputs),
        taps(window),
        channels(inputs),
        panel(fp32_kernels().gemm_panel(outputs)),
        panels(ceil_div(outputs, panel)) {
    const std::int64_t k = taps * channels;
    weight = view.weights.pack(gemm_packed_elements(n, k, panel), [&](float* to) {
      gemm_pack(n, k, panel, view.constant(Conv2d::kWeight).data() + first * k, order, to);
    });
    bias = view.weights.pack(panels * panel, [&](float* to) {
      const std::span<const float> all = view.constant(Conv2d::kBias);
      if (!all.empty()) std::copy_n(all.data() + first, outputs, to);
    });
  }

  std::int64_t bytes() const noexcept { return weight.bytes() + bias.bytes(); }

  GemmTask task(const Activation& activation) const {
    GemmTask task;
    task.taps = taps;
    task.channels = channels;
    task.packed = weight.data();
    task.bias = bias.data();
    task.n = n;
    task.panel = panel;
    task.last_panel = panels;
    task.lo = activation.lo;
    task.hi = activation.hi;
    return task;
  }
};

// What a product of one or several groups has in common for all blocks of its rows.
struct Product {
  std::vector<PackedGemm> groups;  // equal but for their weights
  Activation activation;
  std::int64_t image_rows = 1;  // of one image
  int x = kNoBuffer, residual = kNoBuffer, y = kNoBuffer;
  std::int64_t scratch_elements = 0;  // what `point` of run_product() needs beside the pointers

  const PackedGemm& shape() const { return groups.front(); }
  std::int64_t columns() const { return std::ssize(groups) * shape().n; }
  std::int64_t most_rows() const {
    return std::clamp(kBlockSums / shape().n / kLeastRows * kLeastRows, kLeastRows, kMostRows);
  }
  // A thread's scratch memory: GemmTask::x, then what `point` needs.
  std::int64_t pointer_elements() const { return most_rows() * shape().taps * (kPointerBytes / kFloatBytes); }
  std::int64_t workspace_bytes() const { return checked_multiply(pointer_elements() + scratch_elements, kFloatBytes); }
};

// Some panels of one group, for a block of rows.
void run_block(const Product& product, const StepContext& context, std::int64_t group, Range rows, Range panels,
               const float* const* x) {
  const PackedGemm& gemm = product.groups[static_cast<std::size_t>(group)];
  GemmTask task = gemm.task(product.activation);
  task.x = x;
  task.x_rows = rows.last - rows.first;
  task.x_offset = group * gemm.channels;
  task.rows = task.x_rows;
  task.y_stride = product.columns();
  const std::int64_t at = rows.first * task.y_stride + group * gemm.n;
  task.y = context.buffer<float>(product.y) + at;
  if (product.residual != kNoBuffer) task.residual = context.buffer<const float>(product.residual) + at;
  task.first_panel = panels.first;
  task.last_panel = panels.last;
  fp32_kernels().gemm(task);
  const std::int64_t first_column = panels.first * gemm.panel;
  const std::int64_t end = std::min(panels.last * gemm.panel, gemm.n);
  activate_block(product.activation, task.rows, end - first_column, task.y_stride, task.y + first_column);
}

// y = act(x * w^T + bias + residual), cut into blocks of rows and groups and, where these are few, of panels.
// point(Range rows, const float** x, float* scratch) tells where the runs of these rows begin: GemmTask::x.
template <class Point>
void run_product(const Product& product, const StepContext& context, const Point& point) {
  const std::int64_t rows = context.n * product.image_rows;
  const std::int64_t row_blocks = ceil_div(rows, product.most_rows());
  const std::int64_t groups = std::ssize(product.groups);
  const std::int64_t wanted = kBlocksPerThread * context.pool.threads();
  const std::int64_t panel_blocks =
      context.pool.threads() == 1
          ? 1
          : std::clamp<std::int64_t>(ceil_div(wanted, row_blocks * groups), 1, product.shape().panels);
  const std::int64_t parts = groups * panel_blocks;
  const std::int64_t blocks = row_blocks * parts;
  const auto run_range = [&](std::int64_t first, std::int64_t last, int worker) {
    float* const scratch = context.scratch(worker);
    const auto x = reinterpret_cast<const float**>(scratch);
    std::int64_t pointed = -1;  // the block of rows that x is of
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t row_block = block / parts;
      const Range block_rows{row_block * rows / row_blocks, (row_block + 1) * rows / row_blocks};
      if (pointed != row_block) point(block_rows, x, scratch + product.pointer_elements());
      pointed = row_block;
      const std::int64_t panel_block = block % panel_blocks;
      const std::int64_t panels = product.shape().panels;
      run_block(product, context, block % parts / panel_blocks, block_rows,
                {panel_block * panels / panel_blocks, (panel_block + 1) * panels / panel_blocks}, x);
    }
  };
  context.pool.for_ranges(blocks, std::max<std::int64_t>(blocks / wanted / 4, 1), run_range);
}

std::string with_isa(const char* stem) { return std::string(stem) + "/" + fp32_kernels().name; }

LoweredNode lower_rows(const char* kernel, Product product) {
  LoweredNode lowered;
  lowered.kernel = with_isa(kernel);
  lowered.weight_bytes = product.shape().bytes();
  lowered.workspace_bytes = product.workspace_bytes();
  lowered.run = [product = std::move(product)](const StepContext& context) {
    const auto* const all = context.buffer<const float>(product.x);
    run_product(product, context, [&](Range rows, const float** x, float*) {
      for (std::int64_t row = rows.first; row < rows.last; ++row) *x++ = all + row * product.shape().channels;
    });
  };
  return lowered;
}

LoweredNode lower_pointwise(const Conv2d& op, const NodeView& view) {
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  const Shape& out = view.output_desc().shape;
  return lower_rows("gemm", {{PackedGemm(view, 0, weight[0], 1, weight[1], nullptr)},
                             op.activation,
                             out[2] * out[3],
                             view.inputs[Conv2d::kInput],
                             view.inputs[Conv2d::kResidual],
                             view.output});
}

LoweredNode lower_depthwise(const Conv2d& op, const NodeView& view) {
  const Shape& x_shape = view.desc(Conv2d::kInput).shape;
  const Shape& weight_shape = view.desc(Conv2d::kWeight).shape;
  const Shape& out = view.output_desc().shape;
  const PackedWeights weight = view.weights.pack(weight_shape.elements(), [&](float* to) {
    depthwise_conv_pack(weight_shape, view.constant(Conv2d::kWeight).data(), to);
  });
  const PackedWeights bias =
      view.weights.pack(weight_shape[0], [&](float* to) { std::ranges::copy(view.constant(Conv2d::kBias), to); });

  DepthwiseTask shape;
  shape.h = x_shape[2];
  shape.w = x_shape[3];
  shape.c = x_shape[1];
  shape.out_w = out[3];
  shape.kernel_h = weight_shape[2];
  shape.kernel_w = weight_shape[3];
  shape.stride_h = op.strides[0];
  shape.stride_w = op.strides[1];
  shape.dilation_h = op.dilations[0];
  shape.dilation_w = op.dilations[1];
  shape.pad_top = op.pads.top;
  shape.pad_left = op.pads.left;
  shape.lo = op.activation.lo;
  shape.hi = op.activation.hi;

  return {with_isa("depthwise_conv"),
          [weight, bias, shape, out_h = out[2], activation = op.activation, x = view.inputs[Conv2d::kInput],
           residual = view.inputs[Conv2d::kResidual], y = view.output](const StepContext& context) {
            context.pool.for_ranges(context.n * out_h, 1, [&](std::int64_t first, std::int64_t last, int) {
              for (std::int64_t row = first; row < last; ++row) {
                const std::int64_t at = row * shape.out_w * shape.c;
                DepthwiseTask task = shape;
                task.packed = weight.data();
                task.bias = bias.data();
                task.x = context.buffer<const float>(x) + row / out_h * shape.h * shape.w * shape.c;
                task.oy = row % out_h;
                task.y = context.buffer<float>(y) + at;
                if (residual != kNoBuffer) task.residual = context.buffer<const float>(residual) + at;
                fp32_kernels().depthwise_conv(task);
                activate_block(activation, 1, shape.out_w * shape.c, 0, task.y);
              }
            });
          },
          weight.bytes() + bias.bytes()};
}

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

LoweredNode lower_general(const Conv2d& op, const NodeView& view) {
  const WindowGeometry geometry = window_geometry(op, view);
  Product product{pack_groups(op, view, geometry), op.activation,
                  geometry.out_h * geometry.out_w, view.inputs[Conv2d::kInput],
                  view.inputs[Conv2d::kResidual],  view.output};
  product.scratch_elements = geometry.scratch_elements(product.most_rows());
  LoweredNode lowered;
  lowered.kernel = with_isa("conv2d");
  lowered.workspace_bytes = product.workspace_bytes();
  for (const PackedGemm& gemm : product.groups) lowered.weight_bytes += gemm.bytes();
  lowered.run = [product = std::move(product), geometry](const StepContext& context) {
    const auto* const image = context.buffer<const float>(product.x);
    run_product(product, context,
                [&](Range rows, const float** x, float* scratch) { window_runs(geometry, image, rows, scratch, x); });
  };
  return lowered;
}

bool is_pointwise(const Conv2d& op, const Shape& weight) {
  return op.groups == 1 && weight[2] == 1 && weight[3] == 1 && op.strides[0] == 1 && op.strides[1] == 1 &&
         !op.pads.any();
}

}  // namespace

LoweredNode lower_fp32(const Conv2d& op, const NodeView& view) {
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  if (is_pointwise(op, weight)) return lower_pointwise(op, view);
  if (is_depthwise(op, view.desc(Conv2d::kInput).shape, weight)) return lower_depthwise(op, view);
  return lower_general(op, view);
}

LoweredNode lower_fp32(const Gemm& op, const NodeView& view) {
  const Shape& weight = view.desc(Gemm::kWeight).shape;
  return lower_rows("gemm", {{PackedGemm(view, 0, weight[0], 1, weight[1], nullptr)},
                             op.activation,
                             1,
                             view.inputs[Gemm::kInput],
                             kNoBuffer,
                             view.output});
}

}  // namespace mobicuda::cpu
