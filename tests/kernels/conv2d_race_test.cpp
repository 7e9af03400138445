// Every variant of conv2d, for tools under which a launch takes long: race_case.h.
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/conv2d_case.h"
#include "kernels/race_case.h"

namespace mobicuda::test {
namespace {

using namespace conv2d_case;
using Each = race_case::EachOnce<Conv2dVariant>;

void check(const Conv2dParams& p, std::span<const Conv2dVariant> variants) { check_against_oracle(p, 91, variants); }

/// Two pictures through a window of 3x3 with padding, bias and residual.
Conv2dParams layer(Elem elem, int h, int w, int c_in, int c_out, int groups = 1) {
  Conv2dParams p = stem(elem, Input::NhwcElem, 2, h, w, c_out, 1);
  p.c_in = c_in;
  p.groups = groups;
  p.residual = true;
  return p;
}

std::vector<Conv2dVariant> family(std::initializer_list<std::string_view> prefixes, bool with = true) {
  return race_case::named(kernels::conv2d_variants(), with, prefixes);
}

TEST_CASE("conv2d: every variant that is neither a matrix product nor of groups once", "[race]") {
  Each each(family({"simt", "dmma", "mma", "wgmma", "grouped"}, false));
  for (const Elem elem : kAllElems) each.run(std::vector{stem(elem, Input::NchwFloat, 2, 35, 36, 32, 2)}, check);
  for (const Elem elem : kElems) each.run(std::vector{stem(elem, Input::NhwcFloat, 2, 18, 35, 40, 1)}, check);
  each.check_all_ran();
}

TEST_CASE("conv2d: groups once and many tiles of first layers and groups", "[race]") {
  constexpr int kPictures = 132 * 8 * 4 + 1;  // a ring wraps around, whatever a GPU of sm_90 runs at once
  Each first(family({"first", "stem3x3_split"}));
  for (const Input input : {Input::NchwFloat, Input::NhwcFloat}) {
    first.run(std::vector{stem(Elem::F16, input, kPictures, 3, 4, 16, 2)}, check);
  }
  first.check_all_ran();
  Each groups(family({"grouped"}));
  for (const int channels : {4, 8, 32}) {
    groups.run(std::vector{layer(Elem::F16, 17, 15, 3 * channels, 3 * channels, 3)}, check);
  }
  Conv2dParams many = layer(Elem::F16, 3, 3, 24, 24, 3);
  many.n = kPictures;
  groups.run(std::vector{many}, check);
  groups.check_all_ran();
}

TEST_CASE("conv2d: every matrix product without tensor cores or in double once", "[race]") {
  Each each(family({"simt", "dmma"}));
  for (const Elem elem : kAllElems) each.run(std::vector{layer(elem, 9, 15, 40, 136)}, check);
  each.check_all_ran();
}

TEST_CASE("conv2d: every matrix product on mma once", "[race]") {
  Each each(family({"mma"}));
  for (const Conv2dVariant variant : each.variants()) {
    // 10 slices, or 72 of blocks that share a sum: the ring wraps around in each of eight.
    const bool shared = kernels::conv2d_tile(variant).split_k > 1;
    std::vector layers{shared ? layer(Elem::F16, 7, 7, 512, 72) : layer(Elem::F16, 9, 15, 72, 136)};
    layers.push_back(layer(Elem::F16, 9, 15, 68, 135));  // of chunks of 4 channels
    each.run_one(variant, layers, check);
  }
  each.check_all_ran();
}

TEST_CASE("conv2d: every matrix product on wgmma once", "[race]") {
  Each each(family({"wgmma"}));
  // Of a GPU of 132 multiprocessors each has several tiles, of any size.
  Conv2dParams many = layer(Elem::F16, 131, 131, 64, 200);
  many.residual = false;
  Conv2dParams pooled = many;
  pooled.max_pool = true;
  const auto check_pooled = [&](const Conv2dParams& p, std::span<const Conv2dVariant> variants) {
    const Data data = random_data(p, 92);
    const std::vector<float> expected = pool_outputs(many, Device(many, data).run(Conv2dVariant::Wgmma256x128x64));
    const Device device(p, data);
    for (const Conv2dVariant variant : variants) REQUIRE(compare_bits(device.run(variant), expected));
  };
  for (const Conv2dVariant variant : each.variants()) {
    const bool persistent = name(variant).find("_persistent") != std::string_view::npos ||
                            name(variant).find("_patch") != std::string_view::npos;
    const kernels::Conv2dTile tile = kernels::conv2d_tile(variant);
    // Three windows for each block that shares a sum: the first one's place is used again.
    const int c_in = tile.window ? 192 * tile.split_k : 128;
    Conv2dParams one = persistent ? many : layer(Elem::F16, 11, 13, c_in, 264);
    each.run_one(variant, std::vector{one}, check);
    if (!tile.window) continue;
    one.stride_h = one.stride_w = 2;
    one.out_h = 6;
    one.out_w = 7;
    each.run_one(variant, std::vector{one}, check);
  }
  each.run(std::vector{pooled}, check_pooled);
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
