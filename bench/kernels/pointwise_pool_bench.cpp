#include "kernels/pointwise_pool.h"

#include "bench_support.h"
#include "kernels/gemm.h"

namespace mobicuda::bench {
namespace {

using kernels::PointwisePoolParams;
using kernels::PointwisePoolVariant;

/// The head of MobileNetV2 1.0 at 224 x 224.
PointwisePoolParams head(int batch) {
  PointwisePoolParams p;
  p.n = batch;
  p.pixels = 7 * 7;
  p.c_in = 320;
  p.c = 1280;
  p.bias = true;
  p.clip = {0.0F, 6.0F};
  return p;
}

Work work_of(const PointwisePoolParams& p) {
  const std::int64_t inputs = std::int64_t{p.n} * p.pixels * p.c_in;
  const std::int64_t elements = inputs + std::int64_t{p.c} * p.c_in + std::int64_t{p.n} * p.c;
  return {elements * static_cast<std::int64_t>(kernels::size_of(p.elem)), 2 * inputs * p.c, matrix_pipe(p.elem)};
}

void run(benchmark::State& state, PointwisePoolVariant variant, const PointwisePoolParams& p) {
  std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, p.c, p.c_in));
  const std::vector<float> weight(static_cast<std::size_t>(p.c * p.c_in), 0.125F);
  kernels::gemm_pack(p.elem, p.c, p.c_in, weight.data(), packed.data());
  const DeviceArray w(packed);
  const DeviceArray x(p.elem, std::int64_t{p.n} * p.pixels * p.c_in);
  const DeviceArray bias(Elem::F32, p.c);
  const DeviceArray y(p.elem, std::int64_t{p.n} * p.c);
  measure(state, work_of(p), [&](const kernels::Launch& where) {
    return kernels::pointwise_pool(variant, p, x.data(), w.data(), bias.floats(), y.data(), where);
  });
}

const bool kRegistered = [] {
  for (const int batch : kBatches) {
    for (const PointwisePoolVariant variant : kernels::pointwise_pool_variants()) {
      const PointwisePoolParams p = head(batch);
      add("pointwise_pool/fp16/" + shape_name(p.n, 7, 7, p.c_in) + "_to_" + std::to_string(p.c) + "/" +
              std::string(name(variant)),
          [=](benchmark::State& state) { run(state, variant, p); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
