#include "plan/lowering.h"

namespace mobicuda {
namespace {

bool is_stem(const Conv2d& op, const Shape& weight) {
  return op.groups == 1 && weight[1] == 3 && weight[2] == 3 && weight[3] == 3 &&
         op.strides == std::array<std::int64_t, 2>{2, 2} && op.dilations == std::array<std::int64_t, 2>{1, 1};
}

}  // namespace

// Only half has such a kernel.
std::optional<Lowering::StemBlock> Lowering::stem_block_before(const Block& block) {
  if (elem_ != Elem::F16 || block.expand != nullptr || block.project->inputs[Conv2d::kResidual] != kNoValue) {
    return std::nullopt;
  }
  const auto producer = graph_.producer(block.depthwise->inputs[Conv2d::kInput]);
  const Node* stem = producer ? &graph_.nodes()[*producer] : nullptr;
  const auto* op = stem == nullptr ? nullptr : std::get_if<Conv2d>(&stem->op);
  if (op == nullptr || sole_reader(stem->output) != block.depthwise || stem->inputs[Conv2d::kResidual] != kNoValue ||
      !is_stem(*op, shape(stem->inputs[Conv2d::kWeight]))) {
    return std::nullopt;
  }
  // The caller's floats, NCHW, or bytes: read through the LayoutTransform, which then has no other reader.
  const auto transform = graph_.producer(stem->inputs[Conv2d::kInput]);
  const Node* source = transform ? &graph_.nodes()[*transform] : nullptr;
  if (source == nullptr || !std::holds_alternative<LayoutTransform>(source->op) ||
      source->inputs[0] != graph_.input() || sole_reader(source->output) != stem) {
    return std::nullopt;
  }
  const auto& depthwise = std::get<Conv2d>(block.depthwise->op);
  if (depthwise.strides[0] != 1 || !only_clips({stem, block.depthwise, block.project})) return std::nullopt;
  const Shape& in = shape(graph_.input());
  const Shape& middle = shape(stem->output);
  const Shape& out = shape(block.project->output);
  StemBlock found;
  found.stem = stem;
  found.block = block;
  kernels::StemBlockParams& params = found.params;
  params.n = as_int(options_.max_batch);
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c_stem = as_int(middle[1]);
  params.c_out = as_int(out[1]);
  params.stem_h = as_int(middle[2]);
  params.stem_w = as_int(middle[3]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  params.stem_pad_top = as_int(op->pads.top);
  params.stem_pad_left = as_int(op->pads.left);
  params.depthwise_pad_top = as_int(depthwise.pads.top);
  params.depthwise_pad_left = as_int(depthwise.pads.left);
  params.stem_clip = as_clip(op->activation);
  params.depthwise_clip = as_clip(depthwise.activation);
  params.project_clip = as_clip(std::get<Conv2d>(block.project->op).activation);
  if (pictures_) {
    params.input = kernels::StemInput::NhwcUint8;
    read_pictures(params);
  }
  const auto chosen = chooser_.stem_block(stem->origin.label(), params);
  if (!chosen.variant) {
    keep_apart({stem}, chosen.reason);
    return std::nullopt;
  }
  found.variant = *chosen.variant;
  found.reason = chosen.reason;
  return found;
}

void Lowering::find_stem_block() {
  for (const Node& node : graph_.nodes()) {
    const std::optional<Block> block = block_around(node);
    if (!block) continue;
    stem_block_ = stem_block_before(*block);
    if (!stem_block_) continue;
    in_blocks_.insert({stem_block_->stem, block->depthwise, block->project});
    return;
  }
}

void Lowering::lower_stem_block(const StemBlock& stem) {
  const kernels::StemBlockParams& params = stem.params;
  const auto weights_of = [&](const Node* node, std::size_t position) -> const float* {
    if (node->inputs[position] == kNoValue) return nullptr;
    if (position == Conv2d::kWeight) require_half_range(*node, node->inputs[position]);
    return floats(node->inputs[position]).data();
  };
  const auto bytes = static_cast<std::int64_t>(stem_block_packed_bytes(stem.variant, params));
  const Packed packed = pack_bytes(bytes, [&](std::byte* host) {
    stem_block_pack(stem.variant, params,
                    {weights_of(stem.stem, Conv2d::kWeight), weights_of(stem.stem, Conv2d::kBias),
                     weights_of(stem.block.depthwise, Conv2d::kWeight), weights_of(stem.block.depthwise, Conv2d::kBias),
                     weights_of(stem.block.project, Conv2d::kWeight), weights_of(stem.block.project, Conv2d::kBias)},
                    host);
  });
  const Storage x = input_;
  const Storage y = make_output(*stem.block.project, false);
  LayerInfo info = describe_block({stem.stem, stem.block.depthwise, stem.block.project},
                                  "stem_block/" + std::string(kernels::name(stem.variant)), stem.reason);
  info.weight_bytes = bytes;
  // Floats or bytes are read, not halves.
  info.activation_bytes += shape(graph_.input()).elements() * (pictures_ ? -1 : 2);
  add_step(std::move(info), {x.buffer, y.buffer},
           [params, variant = stem.variant, x, y, w = pointer(packed)](const CudaStepContext& context) {
             auto p = params;
             p.n = as_int(context.n);
             return kernels::stem_block(variant, p, context.buffers[x.buffer], w.get(), context.buffers[y.buffer],
                                        launch_of(context));
           });
}

}  // namespace mobicuda
