#include "kernels/layout_transform.h"

#include "bench_support.h"
#include "selection.h"

namespace mobicuda::bench {
namespace {

/// The network's input, an early and a late layer: side, channels.
constexpr int kShapes[][2] = {{224, 3}, {56, 24}, {14, 96}, {7, 1280}};

std::int64_t bytes_of(Elem elem, std::int64_t elements) {
  return static_cast<std::int64_t>(kernels::size_of(elem)) * elements;
}

void register_transform(Registry& registry, Elem from, Elem to, bool to_nhwc, int n, int side, int c) {
  const kernels::LayoutTransformParams p{from, to, !to_nhwc, to_nhwc, n, c, side, side};
  const std::int64_t elements = static_cast<std::int64_t>(n) * side * side * c;
  const std::string name = std::string(to_nhwc ? "nchw_to_nhwc/" : "nhwc_to_nchw/") + to_string(from) + "_" +
                           to_string(to) + "/" + shape_name(n, side, side, c);
  registry.add(name, [=](benchmark::State& state) {
    const DeviceArray x(from, elements);
    const DeviceArray y(to, elements);
    measure(state, {bytes_of(from, elements) + bytes_of(to, elements), 0},
            [&](const kernels::Launch& where) { return kernels::layout_transform(p, x.data(), y.data(), where); });
  });
}

/// The explicit padding before a 3x3 convolution with stride 2, as TensorFlow pads.
void register_pad(Registry& registry, Elem elem, int n, int side, int c) {
  const kernels::PadParams p{elem, n, side, side, c, 0, 0, 1, 1, 0.0F};
  const std::int64_t inputs = static_cast<std::int64_t>(n) * side * side * c;
  const std::int64_t outputs = static_cast<std::int64_t>(n) * (side + 1) * (side + 1) * c;
  registry.add("pad/" + to_string(elem) + "/" + shape_name(n, side, side, c), [=](benchmark::State& state) {
    const DeviceArray x(elem, inputs);
    const DeviceArray y(elem, outputs);
    measure(state, {bytes_of(elem, inputs + outputs), 0},
            [&](const kernels::Launch& where) { return kernels::pad(p, x.data(), y.data(), where); });
  });
}

void register_pictures(Registry& registry, int n, int side) {
  constexpr int kChannels = 3;
  const kernels::ConvertPicturesParams p{false, n, kChannels, side, side};
  const std::int64_t elements = static_cast<std::int64_t>(n) * side * side * kChannels;
  registry.add("convert_pictures/" + shape_name(n, side, side, kChannels), [=](benchmark::State& state) {
    const DeviceArray x(Elem::F16, elements);  // of any contents, a byte each
    const DeviceArray y(Elem::F32, elements);
    measure(state, {elements + bytes_of(Elem::F32, elements), 0},
            [&](const kernels::Launch& where) { return kernels::convert_pictures(p, x.data(), y.data(), where); });
  });
}

void register_transpose(Registry& registry, Elem elem, int n, int side, int c) {
  const kernels::TransposeParams p{elem, {n, c, side, side}, {0, 2, 3, 1}};
  const std::int64_t elements = static_cast<std::int64_t>(n) * side * side * c;
  registry.add("transpose_0231/" + to_string(elem) + "/" + shape_name(n, side, side, c), [=](benchmark::State& state) {
    const DeviceArray x(elem, elements);
    const DeviceArray y(elem, elements);
    measure(state, {2 * bytes_of(elem, elements), 0},
            [&](const kernels::Launch& where) { return kernels::transpose(p, x.data(), y.data(), where); });
  });
}

}  // namespace

void register_layout_transform(const Selection& selection) {
  for (const int n : kBatches) register_pictures(*selection.registry, n, kShapes[0][0]);
  for (const Elem elem : kElems) {
    for (const int n : kBatches) {
      for (const auto& [side, c] : kShapes) {
        register_transform(*selection.registry, Elem::F32, elem, true, n, side, c);
        register_transform(*selection.registry, elem, Elem::F32, false, n, side, c);
        register_pad(*selection.registry, elem, n, side, c);
        register_transpose(*selection.registry, elem, n, side, c);
      }
    }
  }
}

}  // namespace mobicuda::bench
