#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "support/graphs.h"

namespace mobicuda::test {

/// A network with every operation that an optimised graph can have.
inline Graph every_operation() {
  TestNetwork net(Shape{1, 3, 20, 24});
  net.conv(8, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6(), "stem");
  net.conv(8, 3, 1, {1, 1, 1, 1}, 0, Activation::of(ActivationKind::Silu), "depthwise");
  const ValueId shortcut = net.conv(8, 1, 1, {}, 1, {}, "pointwise");
  net.conv(8, 3, 1, {1, 1, 1, 1}, 2, Activation::of(ActivationKind::LeakyRelu, 0.25F), "grouped");
  net.add(Add{Activation::relu()}, {shortcut, net.last()}, "sum");
  const ValueId sum = net.last();
  net.add(GlobalAveragePool{}, {sum}, "mean");
  net.conv(8, 1, 1, {}, 1, Activation::of(ActivationKind::HardSwish), "gate");
  net.add(Mul{}, {sum, net.last()}, "scaled");
  net.add(Pad{{1, 2, 1, 0}, 0.0F, PadMode::Reflect}, {net.last()}, "mirrored");
  net.scale_shift(Activation::relu(), "normalised");
  net.add(LocalResponseNorm{3, 1e-3F, 0.5F, 2.0F}, {net.last()}, "lrn");
  const ValueId wide = net.add(Unary{UnaryKind::Elu, 0.5F}, {net.last()}, "elu");
  net.add(Slice{1, 2, 4}, {wide}, "some");
  net.add(Concat{1}, {wide, net.last(), wide}, "joined");
  net.add(Clip{{-0.75F, 0.5F}}, {net.last()}, "clipped");
  Pool2d pool;
  pool.kernel = {3, 2};
  pool.strides = {2, 2};
  pool.pads = {1, 0, 1, 0};
  pool.ceil_mode = true;
  net.add(pool, {net.last()}, "max");
  pool.kind = PoolKind::Average;
  pool.count_include_pad = true;
  net.add(pool, {net.last()}, "average");
  net.add(Normalize{NormalizedOver::Groups, 4, 0.25F}, {net.last()}, "groups");
  Resize resize;
  resize.extents = {4, 9};
  resize.mode = ResizeMode::Linear;
  resize.coordinates = ResizeCoordinates::AlignCorners;
  const ValueId resized = net.add(resize, {net.last()}, "resized");
  net.add(Transpose{{0, 1, 3, 2}}, {resized}, "columns");
  net.add(Unary{UnaryKind::Gelu}, {net.last()}, "gelu");
  net.add(BatchedMatMul{}, {net.last(), resized}, "products");
  net.add(Transpose{{0, 2, 3, 1}}, {net.last()}, "turned");
  const std::int64_t elements = net.builder().value(net.last()).desc.shape.elements();
  net.add(Reshape{Shape{1, elements}}, {net.last()}, "flat");
  net.gemm(10, "classifier");
  net.add(Softmax{}, {net.last()}, "softmax");
  return std::move(net).build();
}

/// A few kilobytes.
inline Graph small_network() {
  TestNetwork net(Shape{1, 3, 8, 8});
  net.conv(4, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6(), "stem");
  net.conv(4, 3, 1, {1, 1, 1, 1}, 0, Activation::relu6(), "depthwise");
  net.conv(8, 1, 1, {}, 1, {}, "project");
  net.head(5);
  return std::move(net).build();
}

inline EngineOptions cpu_options(Precision precision = Precision::Fp32, std::int64_t max_batch = 1) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  options.threads = 1;
  return options;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Code and text of the Error that `action` throws.
inline std::pair<ErrorCode, std::string> refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::internal, "nothing was refused"};
}

inline std::vector<float> outputs_of(const Engine& engine, std::int64_t n) {
  std::vector<float> output(static_cast<std::size_t>(n * engine.output().shape.elements()));
  const auto inputs = static_cast<std::size_t>(n * engine.input().shape.elements());
  const auto session = engine.create_session();
  if (engine.input().dtype == DType::U8) {
    std::vector<std::uint8_t> pictures(inputs);
    for (std::size_t i = 0; i < inputs; ++i) pictures[i] = static_cast<std::uint8_t>(i * 7);
    session->run(pictures, output);
  } else {
    session->run(random_uniform(5, inputs), output);
  }
  return output;
}

}  // namespace mobicuda::test
