// A convolution whose only reader takes the maximum of 2x2 pixels, in half.
#include "kernels/conv2d/conv2d.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct PooledConvolution {
  std::vector<const Node*> nodes;  // convolution, pool
  kernels::Conv2dParams params;
  kernels::Conv2dVariant variant{};
  std::string reason;
};

bool halves(const Pool2d& pool) {
  constexpr std::array<std::int64_t, 2> kTwo{2, 2};
  constexpr std::array<std::int64_t, 2> kOne{1, 1};
  return pool.kind == PoolKind::Max && pool.kernel == kTwo && pool.strides == kTwo && pool.dilations == kOne &&
         !pool.pads.any();
}

class ConvPoolFusion final : public FusionOf<PooledConvolution> {
  std::optional<PooledConvolution> match(Lowering& to, const Node& pool) const override {
    const auto* pool_op = std::get_if<Pool2d>(&pool.op);
    if (to.elem() != Elem::F16 || pool_op == nullptr || !halves(*pool_op) || to.is_claimed(&pool)) return std::nullopt;
    const Node* conv = to.producer(pool.inputs[Pool2d::kInput]);
    const auto* op = conv == nullptr ? nullptr : std::get_if<Conv2d>(&conv->op);
    if (op == nullptr || to.is_claimed(conv) || to.sole_reader(conv->output) != &pool ||
        conv->inputs[Conv2d::kResidual] != kNoValue || to.is_final(pool.output)) {
      return std::nullopt;
    }
    const Shape& weight = to.shape(conv->inputs[Conv2d::kWeight]);
    if (is_pointwise(*op, weight) || is_depthwise(*op, weight)) return std::nullopt;
    PooledConvolution found;
    found.nodes = {conv, &pool};
    found.params = conv2d_params(to, *conv, *op);
    found.params.max_pool = true;
    found.params.y_pitch = to.pitch_of(pool.output);
    // In ceil mode the last row and column of an odd number have a window of their own.
    const Shape& out = to.shape(pool.output);
    if (out[2] != found.params.out_h / 2 || out[3] != found.params.out_w / 2) return std::nullopt;
    return found;
  }

  bool choose(Lowering& to, PooledConvolution& found) const override {
    return choose_all(to, *found.nodes.back(), found);
  }

  void emit(Lowering& to, const PooledConvolution& found) const override {
    const Node* conv = found.nodes[0];
    const Storage x = to.read_input(conv->inputs[Conv2d::kInput]);
    const Packed weight =
        to.pack("conv2d", *conv, conv->inputs[Conv2d::kWeight], kernels::conv2d_packed_bytes(found.params),
                [&](const float* w, void* packed) { kernels::conv2d_pack(found.params, w, packed); });
    const Packed bias = to.pack_floats(conv->inputs[Conv2d::kBias]);
    const Storage y = to.make_rows(*found.nodes[1], false);
    to.add_kernel({.info = to.describe(found.nodes, kernel_name(found.variant, found.params), found.reason),
                   .x = x,
                   .weights = {weight, bias},
                   .y = y},
                  found.variant, found.params);
  }
};

}  // namespace

std::unique_ptr<Fusion> make_conv_pool_fusion() { return std::make_unique<ConvPoolFusion>(); }

}  // namespace mobicuda
