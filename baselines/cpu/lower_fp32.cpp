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

constexpr std::int64_t kBlockRows = 48;       // whole tiles of every instruction set; x stays in the L2 cache
constexpr std::int64_t kBlocksPerThread = 4;  // so that a slow thread holds the others up little
constexpr std::int64_t kPatchFloats = 32768;  // gathered patches of a block: half of a usual L2 cache

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The kernels clip; other activations follow on the block that they have just written.
void activate_block(const Activation& activation, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    float* y) {
  if (columns == stride) return activate_floats(activation, y, rows * columns);
  for (std::int64_t row = 0; row < rows; ++row) activate_floats(activation, y + row * stride, columns);
}

// A weight (n, k) and its bias, packed for this processor's kernels.
struct PackedGemm {
  PackedWeights weight;
  PackedWeights bias;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t panels = 0;

  /// Outputs `first` to first + outputs of a node's weight and bias, which have the same positions in Conv2d and Gemm.
  PackedGemm(const NodeView& view, std::int64_t first, std::int64_t outputs, std::int64_t features,
             const std::int64_t* order)
      : n(outputs), k(features), panels(ceil_div(outputs, fp32_kernels().panel)) {
    const std::int64_t panel = fp32_kernels().panel;
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
    task.packed = weight.data();
    task.bias = bias.data();
    task.n = n;
    task.k = k;
    task.last_panel = panels;
    task.lo = activation.lo;
    task.hi = activation.hi;
    return task;
  }
};

// y = act(x * w^T + bias + residual) over dense rows, cut into blocks of rows and, where these are few, of panels.
void run_gemm(const PackedGemm& gemm, const Activation& activation, std::int64_t rows, const float* x,
              const float* residual, float* y, ThreadPool& pool) {
  const std::int64_t row_blocks = ceil_div(rows, kBlockRows);
  const std::int64_t wanted = kBlocksPerThread * pool.threads();
  const std::int64_t panel_blocks =
      pool.threads() == 1 ? 1 : std::clamp<std::int64_t>(ceil_div(wanted, row_blocks), 1, gemm.panels);
  const std::int64_t blocks = row_blocks * panel_blocks;
  pool.for_ranges(blocks, std::max<std::int64_t>(blocks / wanted / 4, 1),
                  [&](std::int64_t first, std::int64_t last, int) {
                    for (std::int64_t block = first; block < last; ++block) {
                      const std::int64_t first_row = block / panel_blocks * kBlockRows;
                      const std::int64_t panel_block = block % panel_blocks;
                      GemmTask task = gemm.task(activation);
                      task.x = x + first_row * gemm.k;
                      task.x_stride = gemm.k;
                      task.y = y + first_row * gemm.n;
                      task.y_stride = gemm.n;
                      task.residual = residual != nullptr ? residual + first_row * gemm.n : nullptr;
                      task.rows = std::min(kBlockRows, rows - first_row);
                      task.first_panel = panel_block * gemm.panels / panel_blocks;
                      task.last_panel = (panel_block + 1) * gemm.panels / panel_blocks;
                      fp32_kernels().gemm(task);
                      const std::int64_t first_column = task.first_panel * fp32_kernels().panel;
                      const std::int64_t end = std::min(task.last_panel * fp32_kernels().panel, gemm.n);
                      activate_block(activation, task.rows, end - first_column, gemm.n, task.y + first_column);
                    }
                  });
}

std::string with_isa(const char* stem) { return std::string(stem) + "/" + fp32_kernels().name; }

LoweredNode lower_pointwise(const Conv2d& op, const NodeView& view) {
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  const PackedGemm gemm(view, 0, weight[0], weight[1], nullptr);
  const Shape& out = view.output_desc().shape;
  return {with_isa("gemm"),
          [gemm, activation = op.activation, pixels = out[2] * out[3], x = view.inputs[Conv2d::kInput],
           residual = view.inputs[Conv2d::kResidual], y = view.output](const StepContext& context) {
            run_gemm(gemm, activation, context.n * pixels, context.buffer<const float>(x),
                     context.buffer<const float>(residual), context.buffer<float>(y), context.pool);
          },
          gemm.bytes()};
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

PatchGeometry patch_geometry(const Conv2d& op, const NodeView& view) {
  const Shape& x = view.desc(Conv2d::kInput).shape;
  const Shape& weight = view.desc(Conv2d::kWeight).shape;
  const Shape& out = view.output_desc().shape;
  PatchGeometry g;
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
  g.channels = weight[1];
  return g;
}

// One PackedGemm for each group, with k in the order of gather_patches(): (ky, kx, channel).
std::vector<PackedGemm> pack_groups(const Conv2d& op, const NodeView& view, const PatchGeometry& geometry) {
  const std::int64_t k = geometry.patch_elements();
  const std::int64_t taps = geometry.kernel_h * geometry.kernel_w;
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(k));
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t channel = 0; channel < geometry.channels; ++channel) order.push_back(channel * taps + tap);
  }
  const std::int64_t outputs = view.desc(Conv2d::kWeight).shape[0] / op.groups;
  std::vector<PackedGemm> groups;
  for (std::int64_t group = 0; group < op.groups; ++group) {
    groups.emplace_back(view, group * outputs, outputs, k, order.data());
  }
  return groups;
}

LoweredNode lower_general(const Conv2d& op, const NodeView& view) {
  const PatchGeometry geometry = patch_geometry(op, view);
  const std::int64_t k = geometry.patch_elements();
  const std::int64_t block_rows = std::clamp<std::int64_t>(kPatchFloats / k, 8, kBlockRows);
  const std::int64_t channels = view.output_desc().shape[1];

  LoweredNode lowered;
  lowered.kernel = with_isa("conv2d");
  lowered.workspace_bytes = checked_multiply(block_rows * k, sizeof(float));
  std::vector<PackedGemm> groups = pack_groups(op, view, geometry);
  for (const PackedGemm& gemm : groups) lowered.weight_bytes += gemm.bytes();
  lowered.run = [groups = std::move(groups), geometry, block_rows, channels, activation = op.activation,
                 x = view.inputs[Conv2d::kInput], residual = view.inputs[Conv2d::kResidual],
                 y = view.output](const StepContext& context) {
    const std::int64_t rows = context.n * geometry.out_h * geometry.out_w;
    const auto group_count = static_cast<std::int64_t>(groups.size());
    const auto run_block = [&](std::int64_t block, int worker) {
      const std::int64_t group = block % group_count;
      const std::int64_t first_row = block / group_count * block_rows;
      const PackedGemm& gemm = groups[static_cast<std::size_t>(group)];
      PatchGeometry patches = geometry;
      patches.first_channel = group * geometry.channels;
      GemmTask task = gemm.task(activation);
      task.rows = std::min(block_rows, rows - first_row);
      gather_patches(patches, context.buffer<const float>(x), {first_row, first_row + task.rows},
                     context.scratch(worker));
      task.x = context.scratch(worker);
      task.x_stride = gemm.k;
      const std::int64_t at = first_row * channels + group * gemm.n;
      task.y = context.buffer<float>(y) + at;
      task.y_stride = channels;
      if (residual != kNoBuffer) task.residual = context.buffer<const float>(residual) + at;
      fp32_kernels().gemm(task);
      activate_block(activation, task.rows, gemm.n, channels, task.y);
    };
    context.pool.for_ranges(ceil_div(rows, block_rows) * group_count, 1,
                            [&](std::int64_t first, std::int64_t last, int worker) {
                              for (std::int64_t block = first; block < last; ++block) run_block(block, worker);
                            });
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
  const PackedGemm gemm(view, 0, weight[0], weight[1], nullptr);
  return {
      with_isa("gemm"),
      [gemm, activation = op.activation, x = view.inputs[Gemm::kInput], y = view.output](const StepContext& context) {
        run_gemm(gemm, activation, context.n, context.buffer<const float>(x), nullptr, context.buffer<float>(y),
                 context.pool);
      },
      gemm.bytes()};
}

}  // namespace mobicuda::cpu
