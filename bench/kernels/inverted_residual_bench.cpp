#include "kernels/inverted_residual.h"

#include "bench_support.h"
#include "tests/kernels/inverted_residual_shapes.h"

namespace mobicuda::bench {
namespace {

using kernels::InvertedResidualParams;
using kernels::InvertedResidualVariant;

InvertedResidualParams make_params(const test::InvertedResidualLayer& layer, Elem elem, int batch) {
  InvertedResidualParams p;
  p.elem = elem;
  p.n = batch;
  p.h = p.w = layer.size;
  p.c_in = layer.c_in;
  p.c_hidden = layer.c_hidden;
  p.c_out = layer.c_out;
  p.stride = layer.stride;
  p.out_h = p.out_w = layer.size / layer.stride + layer.size % layer.stride;
  p.pad_top = p.pad_left = 1;
  p.expand = layer.c_hidden != layer.c_in;
  p.residual = layer.stride == 1 && layer.c_in == layer.c_out;
  p.expand_clip = p.depthwise_clip = {0.0F, 6.0F};
  p.project_clip = {-65504.0F, 65504.0F};
  return p;
}

std::int64_t input_elements(const InvertedResidualParams& p) { return std::int64_t{p.n} * p.h * p.w * p.c_in; }
std::int64_t output_elements(const InvertedResidualParams& p) {
  return std::int64_t{p.n} * p.out_h * p.out_w * p.c_out;
}

/// Without what neighbouring tiles compute twice.
Work work_of(InvertedResidualVariant variant, const InvertedResidualParams& p) {
  constexpr std::int64_t kTaps = 9;
  const std::int64_t out_pixels = std::int64_t{p.n} * p.out_h * p.out_w;
  const std::int64_t expand = p.expand ? input_elements(p) * p.c_hidden : 0;
  const std::int64_t bytes = (input_elements(p) + output_elements(p)) * static_cast<std::int64_t>(size_of(p.elem)) +
                             static_cast<std::int64_t>(kernels::inverted_residual_packed_bytes(variant, p));
  return {bytes, 2 * (expand + out_pixels * p.c_hidden * (kTaps + p.c_out)), matrix_pipe(p.elem)};
}

void run(benchmark::State& state, InvertedResidualVariant variant, const InvertedResidualParams& p) {
  const auto count = [](int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
  const std::vector<float> expand(count(p.c_hidden, p.c_in), 0.125F);
  const std::vector<float> depthwise(count(p.c_hidden, 9), 0.125F);
  const std::vector<float> project(count(p.c_out, p.c_hidden), 0.0625F);
  std::vector<std::byte> packed(kernels::inverted_residual_packed_bytes(variant, p));
  kernels::inverted_residual_pack(
      variant, p, {expand.data(), nullptr, depthwise.data(), nullptr, project.data(), nullptr}, packed.data());
  const DeviceArray w(packed);
  const DeviceArray x(p.elem, input_elements(p));
  const DeviceArray y(p.elem, output_elements(p));
  measure(state, work_of(variant, p), [&](const kernels::Launch& where) {
    return kernels::inverted_residual(variant, p, x.data(), w.data(), y.data(), where);
  });
}

const bool kRegistered = [] {
  for (const int batch : kBatches) {
    for (const test::InvertedResidualLayer& layer : test::kMobileNetV2Blocks) {
      for (const InvertedResidualVariant variant : kernels::inverted_residual_variants()) {
        for (const Elem elem : kElems) {
          const InvertedResidualParams p = make_params(layer, elem, batch);
          const int any_gpu = 90;
          if (!kernels::supports(variant, p, any_gpu)) continue;
          add("inverted_residual/" + std::string(layer.name) + "/n" + std::to_string(batch) + "/" +
                  std::string(name(variant)),
              [=](benchmark::State& state) { run(state, variant, p); });
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
