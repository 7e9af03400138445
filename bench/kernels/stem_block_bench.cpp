#include "kernels/stem_block.h"

#include <limits>

#include "bench_support.h"

namespace mobicuda::bench {
namespace {

using kernels::StemBlockParams;
using kernels::StemBlockVariant;
using kernels::StemInput;

/// MobileNetV2's, padded as TensorFlow does.
StemBlockParams make_params(StemInput input, int batch) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  StemBlockParams p;
  p.input = input;
  p.n = batch;
  p.h = p.w = 224;
  p.c_stem = 32;
  p.c_out = 16;
  p.stem_h = p.stem_w = p.out_h = p.out_w = 112;
  p.depthwise_pad_top = p.depthwise_pad_left = 1;
  p.stem_clip = p.depthwise_clip = {0.0F, 6.0F};
  p.project_clip = {-kInfinity, kInfinity};
  std::fill(std::begin(p.scale), std::end(p.scale), 1.0F / 127.5F);
  std::fill(std::begin(p.shift), std::end(p.shift), -1.0F);
  return p;
}

std::int64_t input_bytes(const StemBlockParams& p) {
  return std::int64_t{p.n} * p.h * p.w * 3 * (p.input == StemInput::NchwFloat ? 4 : 1);
}
std::int64_t output_elements(const StemBlockParams& p) { return std::int64_t{p.n} * p.out_h * p.out_w * p.c_out; }

/// Without what neighbouring warps compute twice.
Work work_of(StemBlockVariant variant, const StemBlockParams& p) {
  constexpr std::int64_t kTaps = 9;
  const std::int64_t bytes =
      input_bytes(p) + output_elements(p) * 2 + static_cast<std::int64_t>(kernels::stem_block_packed_bytes(variant, p));
  const std::int64_t stem = std::int64_t{p.n} * p.stem_h * p.stem_w * p.c_stem * kTaps * 3;
  return {bytes, 2 * (stem + std::int64_t{p.n} * p.out_h * p.out_w * p.c_stem * (kTaps + p.c_out)), Pipe::Tensor};
}

void run(benchmark::State& state, StemBlockVariant variant, const StemBlockParams& p) {
  const auto weights = [](int a, int b) {
    return std::vector<float>(static_cast<std::size_t>(a) * static_cast<std::size_t>(b), 0.125F);
  };
  const std::vector<float> stem = weights(p.c_stem, 27);
  const std::vector<float> depthwise = weights(p.c_stem, 9);
  const std::vector<float> project = weights(p.c_out, p.c_stem);
  std::vector<std::byte> packed(kernels::stem_block_packed_bytes(variant, p));
  kernels::stem_block_pack(variant, p, {stem.data(), nullptr, depthwise.data(), nullptr, project.data(), nullptr},
                           packed.data());
  const DeviceArray w(packed);
  const DeviceArray x(Elem::F32, input_bytes(p) / 4);
  const DeviceArray y(Elem::F16, output_elements(p));
  measure(state, work_of(variant, p), [&](const kernels::Launch& where) {
    return kernels::stem_block(variant, p, x.data(), w.data(), y.data(), where);
  });
}

const bool kRegistered = [] {
  constexpr std::pair<StemInput, const char*> kInputs[] = {{StemInput::NchwFloat, "nchw_float"},
                                                           {StemInput::NhwcUint8, "nhwc_uint8"}};
  for (const int batch : kBatches) {
    for (const auto& [input, input_name] : kInputs) {
      for (const StemBlockVariant variant : kernels::stem_block_variants()) {
        const StemBlockParams p = make_params(input, batch);
        add("stem_block/" + shape_name(p.n, p.h, p.w, 3) + "_" + input_name + "/" + std::string(name(variant)),
            [=](benchmark::State& state) { run(state, variant, p); });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
