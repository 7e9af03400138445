// A network's first convolution with the block without expansion behind it, in half and in float.
#include "kernels/stem_block/stem_block.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

bool is_stem(const Conv2d& op, const Shape& weight) {
  return op.groups == 1 && weight[1] == 3 && weight[2] == 3 && weight[3] == 3 &&
         op.strides == std::array<std::int64_t, 2>{2, 2} && op.dilations == std::array<std::int64_t, 2>{1, 1};
}

struct Stem {
  std::vector<const Node*> nodes;  // stem, depthwise, project
  kernels::StemBlockParams params;
  kernels::StemBlockVariant variant{};
  std::string reason;
};

kernels::StemBlockParams stem_params(const Lowering& to, const Node& stem, const BlockNodes& block) {
  const auto& first = std::get<Conv2d>(stem.op);
  const auto& depthwise = std::get<Conv2d>(block.depthwise->op);
  const Shape& in = to.shape(to.graph().input());
  const Shape& middle = to.shape(stem.output);
  const Shape& out = to.shape(block.project->output);
  kernels::StemBlockParams params;
  params.elem = to.elem();
  params.n = to.max_batch();
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c_stem = as_int(middle[1]);
  params.c_out = as_int(out[1]);
  params.stem_h = as_int(middle[2]);
  params.stem_w = as_int(middle[3]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  params.stem_pad_top = as_int(first.pads.top);
  params.stem_pad_left = as_int(first.pads.left);
  params.depthwise_pad_top = as_int(depthwise.pads.top);
  params.depthwise_pad_left = as_int(depthwise.pads.left);
  params.stem_clip = as_clip(first.activation);
  params.depthwise_clip = as_clip(depthwise.activation);
  params.project_clip = as_clip(std::get<Conv2d>(block.project->op).activation);
  if (to.input_is_bytes()) {
    params.input = kernels::StemInput::NhwcUint8;
    to.set_scale(params);
  }
  return params;
}

class StemBlockFusion final : public FusionOf<Stem> {
  std::optional<Stem> match(Lowering& to, const Node& depthwise) const override {
    if (to.elem() != Elem::F16 && to.elem() != Elem::F32) return std::nullopt;
    const auto block = block_around(to, depthwise, 3);
    if (!block || block->expand != nullptr || block->project->inputs[Conv2d::kResidual] != kNoValue) {
      return std::nullopt;
    }
    const Node* stem = to.producer(depthwise.inputs[Conv2d::kInput]);
    const auto* op = stem == nullptr ? nullptr : std::get_if<Conv2d>(&stem->op);
    if (op == nullptr || to.sole_reader(stem->output) != &depthwise || stem->inputs[Conv2d::kResidual] != kNoValue ||
        !is_stem(*op, to.shape(stem->inputs[Conv2d::kWeight]))) {
      return std::nullopt;
    }
    // The caller's floats, NCHW, or bytes: read through the LayoutTransform, which then has no other reader.
    const Node* source = to.producer(stem->inputs[Conv2d::kInput]);
    if (source == nullptr || !std::holds_alternative<LayoutTransform>(source->op) ||
        source->inputs[0] != to.graph().input() || to.sole_reader(source->output) != stem) {
      return std::nullopt;
    }
    Stem found;
    found.nodes = {stem, block->depthwise, block->project};
    if (std::get<Conv2d>(depthwise.op).strides[0] != 1 || !to.only_clips(found.nodes)) return std::nullopt;
    found.params = stem_params(to, *stem, *block);
    return found;
  }

  bool choose(Lowering& to, Stem& found) const override {
    const Node* stem = found.nodes.front();
    const auto chosen = to.chooser().choose_fused(stem->origin.label(), found.params);
    if (!chosen.variant) {
      to.keep_apart({stem}, chosen.reason);
      return false;
    }
    found.variant = *chosen.variant;
    found.reason = chosen.reason;
    to.take_bytes(stem);
    return true;
  }

  void emit(Lowering& to, const Stem& found) const override {
    kernels::StemBlockParams params = found.params;
    // Another reader of the input may have made floats of it.
    if (!to.input_is_bytes()) params.input = kernels::StemInput::NchwFloat;
    const Node* stem = found.nodes[0];
    const Node* depthwise = found.nodes[1];
    const Node* project = found.nodes[2];
    const auto bytes = static_cast<std::int64_t>(stem_block_packed_bytes(found.variant, params));
    const Packed packed = to.pack_bytes(
        Lowering::packing_of(found.variant, params), Lowering::constants_of(found.nodes), bytes, [&](std::byte* host) {
          stem_block_pack(found.variant, params,
                          {to.constant_of(stem, Conv2d::kWeight), to.constant_of(stem, Conv2d::kBias),
                           to.constant_of(depthwise, Conv2d::kWeight), to.constant_of(depthwise, Conv2d::kBias),
                           to.constant_of(project, Conv2d::kWeight), to.constant_of(project, Conv2d::kBias)},
                          host);
        });
    const Storage x = to.input();
    const Storage y = to.make_output(*project, false);
    LayerInfo info = to.describe(found.nodes, kernel_name(found.variant, params), found.reason);
    // Floats or bytes are read, whatever the network's elements are.
    const std::size_t read = to.input_is_bytes() ? 1 : sizeof(float);
    info.activation_bytes += to.shape(to.graph().input()).elements() *
                             (static_cast<std::int64_t>(read) - static_cast<std::int64_t>(size_of(to.elem())));
    to.add_kernel({.info = std::move(info), .x = x, .weights = {packed}, .y = y}, found.variant, params);
  }
};

}  // namespace

std::unique_ptr<Fusion> make_stem_block_fusion() { return std::make_unique<StemBlockFusion>(); }

}  // namespace mobicuda
