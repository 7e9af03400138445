#include "kernels/gemm.h"

#include "bench_support.h"
#include "tests/kernels/pointwise_shapes.h"

namespace mobicuda::bench {
namespace {

using kernels::GemmParams;
using kernels::GemmVariant;

GemmParams make_params(Elem elem, const test::PointwiseLayer& layer, int batch) {
  GemmParams p;
  p.elem = elem;
  p.output = layer.side == 1 ? Elem::F32 : elem;
  p.m = batch * layer.side * layer.side;
  p.n = layer.n;
  p.k = layer.k;
  p.bias = true;
  p.residual = layer.residual;
  p.activation = layer.relu6 ? kernels::Clip{0.0F, 6.0F} : kernels::Clip{-1e30F, 1e30F};
  return p;
}

Work work_of(const GemmParams& p) {
  const auto x = static_cast<std::int64_t>(p.m) * p.k;
  const auto y = static_cast<std::int64_t>(p.m) * p.n;
  const auto elem_bytes = static_cast<std::int64_t>(kernels::size_of(p.elem));
  Work work;
  work.bytes = x * elem_bytes + y * static_cast<std::int64_t>(kernels::size_of(p.output)) +
               (p.residual ? y * elem_bytes : 0) +
               static_cast<std::int64_t>(kernels::gemm_packed_bytes(p.elem, p.n, p.k));
  work.flops = 2 * x * p.n;
  work.pipe = matrix_pipe(p.elem);
  return work;
}

void run(benchmark::State& state, GemmVariant variant, const GemmParams& p) {
  if (!supports(variant, p, compute_capability())) {
    state.SkipWithError("this GPU is too old");
    return;
  }
  std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, p.n, p.k));
  const std::vector<float> weight(static_cast<std::size_t>(p.n) * static_cast<std::size_t>(p.k), 1.0F / 64.0F);
  kernels::gemm_pack(p.elem, p.n, p.k, weight.data(), packed.data());
  const DeviceArray w(packed);
  const DeviceArray x(p.elem, static_cast<std::int64_t>(p.m) * p.k);
  const DeviceArray bias(Elem::F32, p.n);
  const DeviceArray residual(p.elem, p.residual ? static_cast<std::int64_t>(p.m) * p.n : 1);
  const DeviceArray y(p.output, static_cast<std::int64_t>(p.m) * p.n);
  measure(state, work_of(p), [&](const kernels::Launch& where) {
    return kernels::gemm(variant, p, x.data(), w.data(), bias.floats(), residual.data(), y.data(), where);
  });
}

/// "gemm/fp16/m401408_n96_k16/mma_128x96x32", for all variants that the newest GPUs support.
void register_layer(Elem elem, const test::PointwiseLayer& layer, int batch) {
  constexpr int kNewest = 90;
  const GemmParams p = make_params(elem, layer, batch);
  const std::string shape = "m" + std::to_string(p.m) + "_n" + std::to_string(p.n) + "_k" + std::to_string(p.k);
  for (const GemmVariant variant : kernels::gemm_variants()) {
    if (!supports(variant, p, kNewest)) continue;
    add("gemm/" + to_string(elem) + "/" + shape + "/" + std::string(name(variant)),
        [=](benchmark::State& state) { run(state, variant, p); });
  }
}

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int batch : kBatches) {
      for (const test::PointwiseLayer& layer : test::kPointwiseLayers) register_layer(elem, layer, batch);
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
