// The image kernels for configurations that no variant has: other channels, other maps. Compiled as device code.
#include <algorithm>
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/image/down.cuh"
#include "kernels/inverted_residual/image/host.h"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_image::Config;
using kernels::inverted_image::Shape;

template <Config kConfig>
constexpr kernels::inverted_image::Kernel device_kernel() {
  if constexpr (kConfig.stride == 1) {
    return kernels::inverted_image::image_kernel<Shape<kConfig>>;
  } else {
    return kernels::inverted_image::down_kernel<Shape<kConfig>>;
  }
}

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  return run_config(kConfig, device_kernel<kConfig>(), p, data);
}

template <Config kConfig>
void check_config(Choice& choose) {
  InvertedResidualParams p =
      block(2 + choose.upto(1), kConfig.h, kConfig.w, kConfig.c_in, kConfig.c_hidden, kConfig.c_out, kConfig.stride);
  p.expand = true;
  p.residual = p.residual && choose.flip();
  if (choose.flip()) p.expand_activation = p.depthwise_activation = kRelu;
  set_activations(p, kConfig);
  if (p.stride == 2) {
    p.pad_top = choose.upto(1);
    p.pad_left = choose.upto(1);
    p.out_h = (p.h + p.pad_top) / 2;
    p.out_w = (p.w + p.pad_left) / 2;
  }
  CAPTURE(p, kConfig.blocks, kConfig.chunk, kConfig.warps, kConfig.columns);
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)));
  const std::vector<float> y = run_config<kConfig>(p, data);
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));

  // The second image has the same bits alone, where no tile is before its own.
  InvertedResidualParams alone = p;
  alone.n = 1;
  Data second = data;
  const auto x = data.x.begin() + static_cast<std::ptrdiff_t>(input_count(alone));
  second.x.assign(x, x + static_cast<std::ptrdiff_t>(input_count(alone)));
  const std::vector<float> y_alone = run_config<kConfig>(alone, second);
  REQUIRE(std::equal(y_alone.begin(), y_alone.end(), y.begin() + static_cast<std::ptrdiff_t>(y_alone.size())));

  // The NaN of a pixel comes neither to other channels' pixels, nor to another tile's or image's.
  const int nan_n = choose.upto(p.n - 1);
  const int nan_y = choose.upto(p.h - 1);
  const int nan_x = choose.upto(p.w - 1);
  data.x[static_cast<std::size_t>(((nan_n * p.h + nan_y) * p.w + nan_x) * p.c_in)] =
      std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> with_nan = run_config<kConfig>(p, data);
  const int pixels = p.out_h * p.out_w;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int pixel = static_cast<int>(i) / p.c_out;
    const bool seen =
        pixel / pixels == nan_n && sees(p, pixel % pixels / p.out_w, pixel % pixels % p.out_w, nan_y, nan_x);
    if (seen || with_nan[i] == y[i]) continue;
    CAPTURE(i, nan_n, nan_y, nan_x);
    REQUIRE(with_nan[i] == y[i]);
  }
}

template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  (check_config<kConfigs>(choose), ...);
}

}  // namespace

TEST_CASE("emulator: inverted_residual of images equals the oracle for channels of every width") {
  check_configs<Config{24, 144, 24, 1, 1, 48}, Config{24, 144, 32, 1, 8, 16}, Config{32, 192, 32, 1, 1, 64},
                Config{32, 192, 48, 1, 2, 48}, Config{48, 288, 48, 1, 1, 48}, Config{48, 288, 72, 1, 4, 32},
                Config{72, 432, 72, 1, 2, 48}, Config{80, 480, 80, 1, 1, 32}, Config{80, 480, 128, 1, 1, 32},
                Config{88, 528, 136, 1, 1, 16, 14, 14, 4, 16, 2, 1},
                Config{128, 768, 128, 1, 2, 32, 14, 14, 4, 16, 1, 1},
                Config{136, 816, 136, 1, 1, 32, 14, 14, 4, 16, 2, 1}>();
}

TEST_CASE("emulator: inverted_residual of images equals the oracle for maps of every size") {
  check_configs<Config{24, 144, 24, 1, 1, 48, 6, 6, 3, 8}, Config{16, 96, 16, 1, 1, 32, 7, 7, 4, 8},
                Config{16, 96, 24, 1, 2, 32, 8, 8, 4, 8}, Config{24, 144, 24, 1, 1, 48, 10, 10, 5, 16},
                Config{16, 40, 16, 1, 2, 32, 12, 12, 6, 16, 1}, Config{8, 48, 8, 1, 1, 32, 15, 15, 4, 16},
                Config{8, 48, 8, 1, 4, 16, 16, 16, 8, 16, 1}, Config{8, 48, 8, 1, 1, 32, 20, 20, 4, 8},
                Config{16, 48, 8, 1, 1, 32, 28, 28, 4, 16}, Config{8, 32, 24, 1, 1, 32, 9, 23, 3, 8},
                Config{8, 32, 8, 1, 2, 16, 31, 5, 2, 8}, Config{8, 32, 8, 1, 1, 16, 1, 33, 2, 16},
                Config{8, 32, 16, 1, 1, 16, 3, 3, 2, 8, 2, 1}>();
}

TEST_CASE("emulator: inverted_residual of images equals the oracle with HardSwish") {
  check_configs<
      Config{80, 200, 80, 1, 1, 32, 14, 14, 4, 16, 2, 0, 1}, Config{80, 184, 80, 1, 4, 16, 14, 14, 4, 16, 2, 0, 1},
      Config{8, 40, 8, 1, 2, 32, 9, 11, 3, 16, 1, 1, 1}, Config{40, 240, 80, 2, 1, 32, 28, 28, 4, 16, 2, 0, 1}>();
}

TEST_CASE("emulator: inverted_residual of images equals the oracle for stride 2") {
  check_configs<Config{32, 192, 56, 2, 1, 64}, Config{48, 288, 80, 2, 2, 32}, Config{72, 432, 120, 2, 1, 32},
                Config{136, 816, 224, 2, 1, 32, 14, 14, 4, 16, 1}, Config{16, 96, 24, 2, 1, 32, 10, 10, 6, 16, 1},
                Config{16, 96, 24, 2, 2, 32, 12, 12, 4, 16}, Config{8, 48, 8, 2, 1, 32, 15, 15, 4, 16},
                Config{8, 48, 8, 2, 2, 32, 16, 16, 8, 16, 1}, Config{8, 48, 40, 2, 1, 32, 20, 20, 4, 16},
                Config{8, 48, 8, 2, 1, 32, 27, 33, 2, 16}, Config{128, 768, 208, 2, 1, 32, 16, 16, 8, 16, 1, 1},
                Config{8, 32, 8, 2, 1, 32, 7, 5, 4, 16}>();
}

TEST_CASE("emulator: every block of MobileNetV2 with small maps has image configurations, and other blocks have none") {
  using kernels::inverted_image::configurations;
  constexpr std::size_t kMost = 6;
  constexpr int kMultiprocessors = 132;
  const kernels::DeviceTraits gpu = kernels::traits_of(90, kMultiprocessors);
  // Of widths 0.35, 0.5, 0.75, 1.0, 1.3 and 1.4: outputs of B7-10, of B11-13 and of B14-16.
  constexpr int kWidths[][3] = {{24, 32, 56},  {32, 48, 80},   {48, 72, 120},
                                {64, 96, 160}, {80, 128, 208}, {88, 136, 224}};
  for (const auto& c : kWidths) {
    for (const int size : {8, 10, 12, 14, 16, 20}) {
      for (const int n : {1, 5, 32, 128, 1000}) {
        for (const InvertedResidualParams& p :
             {block(n, size, size, c[0], c[0] * 6, c[0], 1), block(n, size, size, c[0], c[0] * 6, c[1], 1),
              block(n, size, size, c[1], c[1] * 6, c[1], 1), block(n, size, size, c[1], c[1] * 6, c[2], 2)}) {
          const std::vector<Config> configs = configurations(p, gpu);
          CAPTURE(p);
          REQUIRE(!configs.empty());
          REQUIRE(configs.size() <= kMost);
          for (const Config& config : configs) {
            REQUIRE(kernels::inverted_image::is_valid(config));
            REQUIRE(kernels::inverted_image::supports(config, p, gpu));
          }
        }
      }
    }
  }

  // The variants that were measured to be the fastest.
  const auto cluster = [&](int n, int c_in, int c_out) {
    return configurations(block(n, 14, 14, c_in, c_in * 6, c_out, 1), gpu)[0].blocks;
  };
  CHECK(cluster(128, 64, 64) == 1);
  CHECK(cluster(128, 96, 96) == 1);
  CHECK(cluster(32, 64, 64) == 2);
  CHECK(cluster(32, 96, 96) == 2);
  CHECK(cluster(12, 64, 96) == 4);

  // What a tile's neighbour in the mma is depends on the images before.
  CHECK(kernels::inverted_image::is_valid({64, 384, 64, 1, 2, 48, 8, 8, 4, 8}));
  CHECK(!kernels::inverted_image::is_valid({64, 384, 64, 1, 4, 48, 8, 8, 4, 8}));
  InvertedResidualParams p = block(8, 14, 14, 64, 384, 64, 1);
  CHECK(configurations(p, kernels::traits_of(80, kMultiprocessors)).empty());
  p.elem = Elem::F32;
  CHECK(configurations(p, gpu).empty());
  CHECK(configurations(block(8, 14, 14, 60, 360, 60, 1), gpu).empty());
}

TEST_CASE("emulator: the image kernel's name for NVRTC has every member of its configuration") {
  CHECK(kernels::inverted_image::kernel_expression({24, 144, 32, 1, 2, 48, 20, 18, 3, 8, 4, 1}) ==
        "mobicuda::kernels::inverted_image::image_kernel<mobicuda::kernels::inverted_image::Shape<"
        "mobicuda::kernels::inverted_image::Config{24,144,32,1,2,48,20,18,3,8,4,1,0}>>");
  CHECK(kernels::inverted_image::kernel_expression({24, 144, 32, 2, 1, 32}) ==
        "mobicuda::kernels::inverted_image::down_kernel<mobicuda::kernels::inverted_image::Shape<"
        "mobicuda::kernels::inverted_image::Config{24,144,32,2,1,32,14,14,4,16,2,0,0}>>");
}

}  // namespace mobicuda::test
