#include "kernels/streaming/resize.h"

#include <string>

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

/// Twice as high and wide, as in HRNet and GhostNet: of 28x28x18 to 56x56, and 7x7x144 to 14x14.
struct Image {
  int size;
  int channels;
};
constexpr Image kImages[] = {{28, 18}, {28, 64}, {7, 144}};

void register_all(const Selection& selection) {
  for (const auto& [size, channels] : kImages) {
    for (const bool linear : {false, true}) {
      for (const Elem elem : selection.elems) {
        for (const int batch : selection.batches) {
          const kernels::ResizeLine line{size, 2 * size, 2 * size, -size, 4 * size};
          const kernels::ResizeParams p{elem, linear, batch, channels, line, line};
          const std::int64_t bytes =
              std::int64_t{batch} * size * size * channels * static_cast<std::int64_t>(size_of(elem));
          const auto make = [p, bytes] {
            TimedKernel kernel{"resize"};
            kernel.x_bytes = bytes;
            kernel.y_bytes = 4 * bytes;
            kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
              return kernels::resize(p, on.x, on.y, where);
            };
            return kernel;
          };
          const std::string shape = std::to_string(size) + "x" + std::to_string(size) + "x" + std::to_string(channels);
          add_kernel(*selection.registry, linear ? "resize/linear" : "resize/nearest", {shape, elem, batch}, make);
        }
      }
    }
  }
}

const Benchmarks kBenchmarks("resize", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
