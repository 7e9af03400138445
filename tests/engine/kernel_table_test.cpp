// The tables of the kernels that have variants, and what names of them are accepted. No GPU is needed.
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <mobicuda/error.h>

#include "choose/kernels.h"
#include "choose/named_choices.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using Names = std::map<std::string, std::string>;

TEST_CASE("kernels and their variants have names of their own") {
  std::set<std::string_view> names;
  for_each_kernel([&](const auto& kernel) {
    CAPTURE(kernel.name);
    CHECK(names.insert(kernel.name).second);
    CHECK_FALSE(kernel.variants.empty());
    CHECK(kernel.shape({}).starts_with(std::string(kernel.name) + " "));
    std::set<std::string_view> variants;
    for (const auto variant : kernel.variants) CHECK(variants.insert(kernel.variant_name(variant)).second);
  });
  // Engines that differ in other choices share their weights while choices are confirmed.
  CHECK(kernels::kernel_of(kernels::GemmParams{}).packing == nullptr);
  CHECK(kernels::kernel_of(kernels::InvertedResidualParams{}).packing != nullptr);
}

TEST_CASE("a variant of every kernel can be asked for by name") {
  for_each_kernel([](const auto& kernel) {
    for (const auto variant : kernel.variants) {
      const std::string name(kernel.variant_name(variant));
      CAPTURE(kernel.name, name);
      CHECK_NOTHROW(NamedChoices(Names{{std::string(kernel.name), name}}));
    }
    CHECK_THROWS_AS(NamedChoices(Names{{std::string(kernel.name), "layers"}}), Error);
  });
}

TEST_CASE("names that do not exist are refused, with those that do") {
  const auto message_of = [](const std::string& what, const std::string& name) {
    try {
      NamedChoices(Names{{what, name}});
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message_of("gate", "expand_depthwise").find("layers, fused") != std::string::npos);
  CHECK(message_of("stem_block", "rows3").find("rows1, rows2") != std::string::npos);
  CHECK(message_of("gem", "gemv").find("gemm, depthwise_conv, conv2d") != std::string::npos);
  CHECK(message_of("gem", "gemv").find("block, pool, pair, head, stem, gate, gated_project, ") != std::string::npos);
  CHECK(message_of("gem", "gemv").ends_with(", pointwise"));
}

TEST_CASE("a batch of fewer images has the parameters of its rows") {
  kernels::GemmParams gemm;
  gemm.m = 8 * 49;
  CHECK(kernels::kernel_of(gemm).with_batch(gemm, 3, 8).m == 3 * 49);
  kernels::StemBlockParams stem;
  stem.n = 8;
  CHECK(kernels::kernel_of(stem).with_batch(stem, 3, 8).n == 3);
}

TEST_CASE("operands are as large as the kernel reads and writes them") {
  kernels::GemmParams p;
  p.elem = p.output = kernels::Elem::F16;
  p.m = 49;
  p.n = 20;
  p.k = 30;
  p.residual = true;
  const auto variant = kernels::GemmVariant::Simt64x64x16;
  const kernels::OperandBytes bytes = kernels::kernel_of(p).operands(variant, p);
  CHECK(bytes.x == 49 * 30 * 2);
  CHECK(bytes.weights[0] == 20 * 32 * 2);
  CHECK(bytes.weights[1] == 20 * 4);
  CHECK(bytes.residual == 49 * 20 * 2);
  CHECK(bytes.y == 49 * 20 * 2);
  const TimedKernel kernel = timed(variant, p);
  CHECK(kernel.name == "gemm/simt_64x64x16");
  CHECK(kernel.weight_bytes.size() == 2);
}

TEST_CASE("all that a time depends on is in the text of a shape") {
  kernels::PointwisePoolParams p;
  p.n = 2;
  p.pixels = 49;
  p.c_in = 320;
  p.c = 1280;
  p.bias = true;
  p.activation = kernels::Clip{0.0F, 6.0F};
  CHECK(kernels::kernel_of(p).shape(p) == "pointwise_pool n=2 pixels=49 c_in=320 c=1280 bias=1 activation=[0,6]");
}

}  // namespace
}  // namespace mobicuda
