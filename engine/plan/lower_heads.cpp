#include "plan/lowering.h"

namespace mobicuda {

void Lowering::find_heads() {
  for (const Node& pool : graph_.nodes()) {
    if (!std::holds_alternative<GlobalAveragePool>(pool.op)) continue;
    const auto producer = graph_.producer(pool.inputs[0]);
    const Node* conv = producer ? &graph_.nodes()[*producer] : nullptr;
    const auto* op = conv == nullptr ? nullptr : std::get_if<Conv2d>(&conv->op);
    if (op == nullptr || in_blocks_.contains(conv) || sole_reader(conv->output) != &pool ||
        !is_pointwise(*op, shape(conv->inputs[Conv2d::kWeight])) || conv->inputs[Conv2d::kResidual] != kNoValue ||
        !only_clips({conv})) {
      continue;
    }
    const Shape& in = shape(conv->inputs[Conv2d::kInput]);
    kernels::PointwisePoolParams params;
    params.elem = elem_;
    params.n = as_int(options_.max_batch);
    params.pixels = as_int(in[2] * in[3]);
    params.c_in = as_int(in[1]);
    params.c = as_int(shape(conv->output)[1]);
    params.bias = conv->inputs[Conv2d::kBias] != kNoValue;
    params.clip = as_clip(op->activation);
    const auto chosen = chooser_.pointwise_pool(conv->origin.label(), params);
    if (!chosen.variant) {
      keep_apart({conv, &pool}, chosen.reason);
      continue;
    }
    in_blocks_.insert({conv, &pool});
    heads_.emplace(&pool, Head{conv, *chosen.variant, params, chosen.reason});
  }
}

void Lowering::lower_head(const Node& pool, const Head& head) {
  const Storage x = read_input(head.conv->inputs[Conv2d::kInput]);
  const kernels::PointwisePoolParams& params = head.params;
  const Packed weight =
      pack(*head.conv, head.conv->inputs[Conv2d::kWeight], kernels::gemm_packed_bytes(elem_, params.c, params.c_in),
           [&](const float* w, void* packed) { kernels::gemm_pack(elem_, params.c, params.c_in, w, packed); });
  const Packed bias = pack_floats(head.conv->inputs[Conv2d::kBias]);
  const Storage y = make_output(pool, false);
  LayerInfo info =
      describe_block({head.conv, &pool}, "pointwise_pool/" + std::string(kernels::name(head.variant)), head.reason);
  info.weight_bytes = weight.bytes + bias.bytes;
  add_step(
      std::move(info), {x.buffer, y.buffer},
      [params, variant = head.variant, x, y, w = pointer(weight), b = pointer(bias)](const CudaStepContext& context) {
        auto p = params;
        p.n = as_int(context.n);
        return kernels::pointwise_pool(variant, p, context.buffers[x.buffer], w.get(), b.get<float>(),
                                       context.buffers[y.buffer], launch_of(context));
      });
}

}  // namespace mobicuda
