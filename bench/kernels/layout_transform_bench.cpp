#include "kernels/streaming/layout_transform.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

/// The network's input, an early and a late layer.
constexpr struct { int side, c; } kShapes[] = {{224, 3}, {56, 24}, {14, 96}, {7, 1280}};

/// Work that reads x and writes y.
using XtoY = std::function<cudaError_t(const void* x, void* y, const kernels::Launch& where)>;

void add_movement(const Selection& selection, const char* kind, const NamedCase& at, std::int64_t x_bytes,
                  std::int64_t y_bytes, const XtoY& move) {
  add_kernel(*selection.registry, std::string("layout_transform/") + kind, at, [=] {
    TimedKernel kernel{"layout_transform"};
    kernel.x_bytes = x_bytes;
    kernel.y_bytes = y_bytes;
    kernel.enqueue = [=](const TimedOperands& on, const kernels::Launch& where) { return move(on.x, on.y, where); };
    return kernel;
  });
}

std::int64_t bytes_of(Elem elem, int n, int side, int c) {
  return static_cast<std::int64_t>(size_of(elem)) * n * side * side * c;
}

/// Between the network's floats, NCHW, and the engine's own layout and type.
void register_transforms(const Selection& selection, const NamedCase& at, int side, int c) {
  const std::int64_t outside = bytes_of(Elem::F32, at.batch, side, c);
  const std::int64_t inside = bytes_of(at.elem, at.batch, side, c);
  const kernels::LayoutTransformParams in{Elem::F32, at.elem, false, true, at.batch, c, side, side};
  const kernels::LayoutTransformParams out{at.elem, Elem::F32, true, false, at.batch, c, side, side};
  const auto transform = [](const kernels::LayoutTransformParams& p) -> XtoY {
    return
        [p](const void* x, void* y, const kernels::Launch& where) { return kernels::layout_transform(p, x, y, where); };
  };
  add_movement(selection, "nchw_to_nhwc", at, outside, inside, transform(in));
  add_movement(selection, "nhwc_to_nchw", at, inside, outside, transform(out));
}

/// The explicit padding before a 3x3 convolution with stride 2, as TensorFlow pads.
void register_pad(const Selection& selection, const NamedCase& at, int side, int c) {
  const kernels::PadParams p{at.elem, at.batch, side, side, c, 0, 0, 1, 1, 0.0F};
  add_movement(selection, "pad", at, bytes_of(at.elem, at.batch, side, c), bytes_of(at.elem, at.batch, side + 1, c),
               [p](const void* x, void* y, const kernels::Launch& where) { return kernels::pad(p, x, y, where); });
}

void register_transpose(const Selection& selection, const NamedCase& at, int side, int c) {
  const kernels::TransposeParams p{at.elem, {at.batch, c, side, side}, {0, 2, 3, 1}};
  const std::int64_t bytes = bytes_of(at.elem, at.batch, side, c);
  add_movement(
      selection, "transpose_0231", at, bytes, bytes,
      [p](const void* x, void* y, const kernels::Launch& where) { return kernels::transpose(p, x, y, where); });
}

/// Bytes to floats.
void register_pictures(const Selection& selection, int batch) {
  constexpr int kChannels = 3;
  constexpr int kSide = 224;
  const kernels::ConvertPicturesParams p{false, batch, kChannels, kSide, kSide};
  const std::int64_t floats = bytes_of(Elem::F32, batch, kSide, kChannels);
  add_movement(
      selection, "convert_pictures", {"224x224x3", Elem::F32, batch}, floats / 4, floats,
      [p](const void* x, void* y, const kernels::Launch& where) { return kernels::convert_pictures(p, x, y, where); });
}

void register_all(const Selection& selection) {
  for (const int batch : selection.batches) {
    register_pictures(selection, batch);
    for (const Elem elem : selection.elems) {
      for (const auto& [side, c] : kShapes) {
        const NamedCase at{extents(side, side, c), elem, batch};
        register_transforms(selection, at, side, c);
        register_pad(selection, at, side, c);
        register_transpose(selection, at, side, c);
      }
    }
  }
}

const Benchmarks kBenchmarks("layout_transform", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
