// The kernel for small images for configurations that no variant has. Compiled as device code.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/image7/host.h"
#include "kernels/inverted_residual/image7/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_image7::Config;

kernels::DeviceTraits h200() {
  constexpr int kMultiprocessors = 132;
  return kernels::traits_of(90, kMultiprocessors);
}

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  return run_config(kConfig, kernels::inverted_image7::image7_kernel<kernels::inverted_image7::Shape<kConfig>>, p,
                    data);
}

template <Config kConfig>
void check_size(Choice& choose, int n, int h, int w) {
  InvertedResidualParams p = block(n, h, w, kConfig.c_in, kConfig.c_hidden, kConfig.c_out, 1);
  p.expand = true;
  p.residual = p.residual && choose.upto(3) > 0;
  if (choose.flip()) p.expand_activation = p.depthwise_activation = kRelu;
  CAPTURE(p, kernels::inverted_image7::kernel_expression(kConfig));
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)));
  const std::vector<float> y = run_config<kConfig>(p, data);
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));

  // The last image has the same bits alone.
  InvertedResidualParams one = p;
  one.n = 1;
  Data last = data;
  last.x.assign(data.x.end() - static_cast<std::ptrdiff_t>(input_count(one)), data.x.end());
  const std::vector<float> alone = run_config<kConfig>(one, last);
  REQUIRE(std::equal(alone.begin(), alone.end(), y.end() - static_cast<std::ptrdiff_t>(alone.size())));

  // What lies beside a pixel in a tile may be another image, whose NaN must not come along.
  const int nan_image = choose.upto(n - 1);
  const int nan_y = choose.upto(h - 1);
  const int nan_x = choose.upto(w - 1);
  data.x[static_cast<std::size_t>(((nan_image * h + nan_y) * w + nan_x) * p.c_in)] =
      std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> with_nan = run_config<kConfig>(p, data);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int pixel = static_cast<int>(i) / p.c_out;
    const bool seen =
        pixel / (h * w) == nan_image && std::abs(pixel % w - nan_x) <= 1 && std::abs(pixel / w % h - nan_y) <= 1;
    CAPTURE(i, nan_image, nan_y, nan_x);
    REQUIRE((seen ? std::isnan(with_nan[i]) : with_nan[i] == y[i]));
  }
}

/// Full images in a batch that fills the last tile in part, and smaller ones.
template <Config kConfig>
void check_config(Choice& choose) {
  const int images = kConfig.tiles * kernels::inverted_image7::sizes_of(kConfig).images;
  check_size<kConfig>(choose, images + 1 + choose.upto(images - 1), kConfig.side, kConfig.side);
  check_size<kConfig>(choose, 1 + choose.upto(images), 1 + choose.upto(kConfig.side - 1),
                      1 + choose.upto(kConfig.side - 1));
}

template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  (check_config<kConfigs>(choose), ...);
}

}  // namespace

TEST_CASE("emulator: inverted_residual of 7x7 images equals the oracle for channels of every width") {
  check_configs<Config{7, 56, 336, 56, 2, 1, 1, 6}, Config{7, 56, 336, 112, 1, 2, 2, 4},
                Config{7, 80, 480, 80, 1, 1, 4, 6}, Config{7, 80, 480, 160, 2, 1, 1, 5},
                Config{7, 120, 720, 120, 1, 2, 1, 3}, Config{7, 120, 720, 240, 1, 1, 3, 4}>();
}

TEST_CASE("emulator: inverted_residual of 7x7 images equals the oracle for widths above 1") {
  check_configs<Config{7, 208, 1248, 208, 1, 1, 4, 3}, Config{7, 208, 1248, 416, 1, 1, 2, 3, 2},
                Config{7, 224, 1344, 224, 2, 1, 1, 3}, Config{7, 224, 1344, 448, 1, 1, 1, 3, 2}>();
}

TEST_CASE("emulator: inverted_residual of small images equals the oracle for images of every size") {
  check_configs<Config{1, 16, 96, 24, 1, 1, 1, 4}, Config{2, 8, 48, 8, 1, 1, 1, 3}, Config{3, 56, 336, 56, 1, 1, 2, 4},
                Config{3, 24, 144, 88, 2, 1, 1, 4}, Config{4, 40, 240, 40, 1, 2, 1, 3},
                Config{5, 56, 336, 112, 2, 1, 1, 4}, Config{5, 32, 192, 32, 1, 1, 3, 4},
                Config{6, 48, 288, 48, 1, 1, 2, 4}, Config{8, 56, 336, 56, 1, 1, 1, 4},
                Config{8, 80, 480, 160, 1, 2, 2, 3}>();
}

TEST_CASE("emulator: inverted_residual of images of two warpgroups equals the oracle") {
  check_configs<Config{9, 24, 144, 40, 1, 1, 1, 4}, Config{10, 56, 336, 56, 1, 1, 3, 4},
                Config{10, 32, 192, 64, 2, 1, 1, 3}, Config{10, 40, 240, 56, 1, 2, 1, 3}>();
}

TEST_CASE("emulator: the small images' configurations are supported and told apart") {
  struct Width {
    int c_in, c_hidden, c_out;
  };
  constexpr Width kWidths[] = {{56, 336, 56},    {56, 336, 112},   {80, 480, 80},    {80, 480, 160},
                               {120, 720, 120},  {120, 720, 240},  {160, 960, 160},  {160, 960, 320},
                               {208, 1248, 208}, {208, 1248, 416}, {224, 1344, 224}, {224, 1344, 448}};
  for (const Width& width : kWidths) {
    for (const int side : {3, 5, 6, 7, 8, 10}) {
      for (const int n : {1, 8, 32, 128, 1000}) {
        const InvertedResidualParams p = block(n, side, side, width.c_in, width.c_hidden, width.c_out, 1);
        const std::vector<Config> found = kernels::inverted_image7::configurations(p, h200());
        CAPTURE(p);
        CHECK(found.size() <= 6);
        CHECK((!found.empty() || side > 8));
        std::vector<std::string> names;
        for (const Config& config : found) {
          CHECK(kernels::inverted_image7::is_valid(config));
          CHECK(kernels::inverted_image7::supports(config, p, h200()));
          names.push_back(kernels::inverted_image7::kernel_expression(config));
        }
        std::sort(names.begin(), names.end());
        CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
      }
    }
  }
  constexpr Config kConfig{7, 56, 336, 112, 1, 2, 2, 4};
  CHECK(kernels::inverted_image7::kernel_expression(kConfig) ==
        "mobicuda::kernels::inverted_image7::image7_kernel<mobicuda::kernels::inverted_image7::Shape<"
        "mobicuda::kernels::inverted_image7::Config{7,56,336,112,1,2,2,4,1}>>");
}

TEST_CASE("emulator: the small images' kernel takes no other configurations and blocks") {
  using kernels::inverted_image7::is_valid;
  constexpr Config kConfig{7, 56, 336, 112, 1, 2, 2, 4};
  static_assert(is_valid(kConfig));
  const auto with = [&](auto set) {
    Config config = kConfig;
    set(config);
    return is_valid(config);
  };
  CHECK_FALSE(with([](Config& c) { c.side = 11; }));
  CHECK_FALSE(with([](Config& c) { c.c_in = 60; }));
  CHECK_FALSE(with([](Config& c) { c.c_hidden = 328; }));
  CHECK_FALSE(with([](Config& c) { c.cuts = 3; }));
  CHECK_FALSE(with([](Config& c) { c.c_out = 56, c.cuts = 7; }));
  CHECK_FALSE(with([](Config& c) { c.c_out = 328; }));
  CHECK_FALSE(with([](Config& c) { c.tiles = 3; }));
  CHECK_FALSE(with([](Config& c) { c.blocks = 6; }));
  CHECK_FALSE(with([](Config& c) { c.stages = 2; }));
  InvertedResidualParams p = block(3, 7, 7, 56, 336, 112, 1);
  const auto runs = [&](const InvertedResidualParams& params) {
    return kernels::inverted_image7::supports(kConfig, params, h200());
  };
  CHECK(runs(p));
  CHECK(runs(block(3, 5, 7, 56, 336, 112, 1)));
  CHECK_FALSE(runs(block(3, 7, 8, 56, 336, 112, 1)));
  CHECK_FALSE(runs(block(3, 7, 7, 56, 336, 120, 1)));
  p.expand_activation = kNone;
  CHECK_FALSE(runs(p));
}

}  // namespace mobicuda::test
