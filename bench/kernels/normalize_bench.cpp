#include "kernels/streaming/normalize.h"

#include <string>

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

/// LayerNorm of ConvNeXt-T's four stages, and GroupNorm of 8 groups of the same.
struct Image {
  int size;
  int channels;
};
constexpr Image kImages[] = {{56, 96}, {28, 192}, {14, 384}, {7, 768}};

void register_all(const Selection& selection) {
  for (const auto& [size, channels] : kImages) {
    for (const bool groups : {false, true}) {
      for (const Elem elem : selection.elems) {
        for (const int batch : selection.batches) {
          const std::int64_t pixels = std::int64_t{size} * size;
          kernels::NormalizeParams p{elem, batch * pixels, 1, channels};
          if (groups) p = {elem, batch, pixels, channels, 8};
          const std::int64_t bytes = batch * pixels * channels * static_cast<std::int64_t>(size_of(elem));
          const auto make = [p, bytes] {
            TimedKernel kernel{"normalize"};
            kernel.x_bytes = kernel.y_bytes = bytes;
            kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
              return kernels::normalize(p, on.x, on.y, where);
            };
            return kernel;
          };
          const std::string shape = std::to_string(size) + "x" + std::to_string(size) + "x" + std::to_string(channels);
          add_kernel(*selection.registry, groups ? "normalize/groups" : "normalize/channels", {shape, elem, batch},
                     make);
        }
      }
    }
  }
}

const Benchmarks kBenchmarks("normalize", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
