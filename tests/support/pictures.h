#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/graph.h>

#include "support/random.h"

namespace mobicuda::test {

/// Powers of two: bytes become floats without rounding, whether fused or not, and halves hold them.
inline PictureInput exact_picture_input() { return {{1.0F / 64, 1.0F / 128, 1.0F / 64}, {-2.0F, -1.0F, 0.5F}}; }

/// n pictures of bytes, HWC.
inline std::vector<std::uint8_t> random_pictures(const Graph& graph, std::int64_t n, std::uint32_t seed = 5) {
  const auto numbers =
      random_uniform(seed, static_cast<std::size_t>(n * graph.input_desc().shape.elements()), 0.0F, 255.99F);
  return {numbers.begin(), numbers.end()};
}

/// What exact_picture_input() makes of them, in the layout of the graph's input.
inline std::vector<float> floats_of(const Graph& graph, std::span<const std::uint8_t> pictures) {
  const PictureInput how = exact_picture_input();
  const TensorDesc& input = graph.input_desc();
  const auto pixels = static_cast<std::size_t>(input.shape[2] * input.shape[3]);
  const std::size_t channels = how.scale.size();
  std::vector<float> floats(pictures.size());
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const std::size_t c = i % channels;
    const std::size_t pixel = i / channels % pixels;
    const std::size_t n = i / channels / pixels;
    const std::size_t to = input.layout == Layout::NHWC ? i : (n * channels + c) * pixels + pixel;
    floats[to] = static_cast<float>(pictures[i]) * how.scale[c] + how.shift[c];
  }
  return floats;
}

}  // namespace mobicuda::test
