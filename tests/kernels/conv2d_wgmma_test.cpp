// The variants of conv2d on wgmma that pass y through shared memory.
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conv2d_case.h"
#include "support/emulated.h"

namespace mobicuda::test {
namespace {

using namespace conv2d_case;
using enum Conv2dVariant;

struct Layer {
  int n, h, w, c_in, c_out, kernel, stride, groups;
};

Conv2dParams params_of(const Layer& layer) {
  const int pad = layer.kernel / 2;
  Conv2dParams p = stem(Elem::F16, Input::NhwcElem, layer.n, layer.h, layer.w, layer.c_out, layer.stride);
  p.c_in = layer.c_in;
  p.groups = layer.groups;
  p.kernel_h = p.kernel_w = layer.kernel;
  p.pad_top = p.pad_left = pad;
  p.out_h = output_extent(layer.h, layer.kernel, layer.stride, 1, pad, pad);
  p.out_w = output_extent(layer.w, layer.kernel, layer.stride, 1, pad, pad);
  return p;
}

/// Sums in the same order, so the same bits.
constexpr std::pair<Conv2dVariant, Conv2dVariant> kTiles[] = {{Wgmma64x64x64Tile, Wgmma128x64x64},
                                                              {Wgmma128x64x64Tile, Wgmma128x64x64},
                                                              {Wgmma128x128x64Tile, Wgmma128x128x64},
                                                              {Wgmma192x128x64Tile, Wgmma256x128x64},
                                                              {Wgmma192x128x64Persistent, Wgmma256x128x64},
                                                              {Wgmma256x128x64Tile, Wgmma256x128x64},
                                                              {Wgmma128x128x64Persistent, Wgmma128x128x64},
                                                              {Wgmma256x64x64Persistent, Wgmma256x64x64},
                                                              {Wgmma256x128x64Persistent, Wgmma256x128x64},
                                                              {Wgmma128x256x64Persistent, Wgmma128x256x64},
                                                              {Wgmma256x128x64PersistentPair, Wgmma256x128x64}};

bool is_persistent(Conv2dVariant variant) { return name(variant).find("_persistent") != std::string_view::npos; }

// Of 128x64 tiles an H100 has more than one for a multiprocessor, but not three.
constexpr Layer kTwoEach{1, 132, 132, 64, 64, 1, 1, 1};

// 1 to 36 slices, for the stages behind them; pixels around a tile's and a warp's; columns around a panel's and a
// tile's, and groups whose last tile reaches into the next one.
constexpr Layer kBorders[] = {
    {1, 1, 1, 8, 8, 1, 1, 1},       {1, 4, 4, 64, 64, 1, 1, 1},     {1, 3, 5, 128, 72, 1, 1, 1},
    {3, 8, 16, 192, 136, 1, 1, 1},  {1, 129, 1, 256, 128, 1, 1, 1}, {2, 15, 17, 320, 200, 1, 1, 1},
    {1, 255, 1, 448, 56, 1, 1, 1},  {7, 9, 7, 64, 264, 3, 1, 1},    {2, 14, 14, 256, 96, 3, 2, 1},
    {2, 11, 9, 128, 144, 3, 1, 2},  {3, 7, 7, 192, 48, 1, 1, 3},    {3, 7, 7, 256, 328, 3, 1, 1},
    {1, 28, 28, 128, 512, 1, 1, 1}, {3, 14, 14, 256, 512, 1, 1, 1}, kTwoEach};

// For a persistent block of any size several tiles on an H200, whose 132 SMs they do not divide.
constexpr Layer kMany[] = {{5, 112, 112, 64, 456, 1, 1, 1}, {3, 95, 97, 72, 200, 3, 1, 1}};

TEST_CASE("conv2d: a tile of y that passes through shared memory has the bits of one that does not", "[sanitize]") {
  std::uint32_t seed = 11000;
  for (const Layer& layer : kBorders) {
    // Its few multiprocessors have several tiles each of smaller layers too.
    if (is_emulated() && layer.n * layer.h * layer.w * layer.c_out > 400'000) continue;
    for (const bool residual : {false, true}) {
      Conv2dParams p = params_of(layer);
      p.residual = residual;
      p.bias = residual || layer.n % 2 == 0;
      const Device device(p, random_data(p, seed += 10));
      for (const auto& [tile, plain] : kTiles) {
        CAPTURE(name(tile), p);
        if (!supports(tile, p, gpu_traits())) continue;
        const std::vector<float> expected = device.run(plain);
        REQUIRE(compare_bits(device.run(tile), expected));
        if (residual) REQUIRE(compare_bits(device.run_in_place(tile), expected));
      }
    }
  }
}

/// Sums in the same order.
constexpr std::pair<Conv2dVariant, Conv2dVariant> kPooled[] = {{Wgmma256x64x64Pooled, Wgmma256x64x64},
                                                               {Wgmma256x128x64Pooled, Wgmma256x128x64}};

// Odd rows and columns, of which one has no partner; pixels of y around a tile's 64 and a warp's 16; several tiles for
// a block of the emulator and, last, of a GPU.
constexpr Layer kPools[] = {{1, 2, 2, 8, 8, 1, 1, 1},       {1, 3, 2, 64, 64, 3, 1, 1},
                            {1, 5, 7, 64, 72, 3, 1, 1},     {2, 9, 16, 72, 136, 3, 1, 1},
                            {1, 16, 34, 128, 64, 3, 1, 1},  {3, 14, 14, 64, 328, 1, 1, 1},
                            {2, 12, 11, 128, 144, 5, 1, 2}, {5, 84, 90, 64, 200, 3, 1, 1}};

TEST_CASE("conv2d: a maximum over 2x2 has the bits of one behind the convolution", "[sanitize]") {
  std::uint32_t seed = 14000;
  for (const Layer& layer : kPools) {
    if (is_emulated() && layer.h > 80) continue;
    for (const bool special : {false, true}) {
      Conv2dParams p = params_of(layer);
      p.bias = !special;
      if (special) p.activation = kernels::Clip{0.0F, 6.0F};
      Data data = random_data(p, seed += 10);
      if (special) {
        data.x[data.x.size() / 2] = std::numeric_limits<float>::quiet_NaN();
        data.x[data.x.size() / 3] = std::numeric_limits<float>::infinity();
      }
      Conv2dParams pooled = p;
      pooled.max_pool = true;
      const Device apart(p, data);
      const Device together(pooled, data);
      for (const auto& [pool, plain] : kPooled) {
        CAPTURE(name(pool), p);
        if (!supports(plain, p, gpu_traits())) MOBICUDA_SKIP("wgmma needs a GPU of sm_90 and code for sm_90a");
        REQUIRE(supports(pool, pooled, gpu_traits()));
        REQUIRE(compare_bits(together.run(pool), pool_outputs(p, apart.run(plain))));
      }
    }
  }
}

TEST_CASE("conv2d: only variants that are made for it pool, and only windows of stride 1 without a residual") {
  constexpr kernels::DeviceTraits kHopper = kernels::traits_of(90, 132);
  const Conv2dParams plain = params_of({1, 28, 28, 128, 128, 3, 1, 1});
  if (!supports(Wgmma256x128x64, plain, kHopper)) MOBICUDA_SKIP("built without code for sm_90a");
  Conv2dParams p = plain;
  p.max_pool = true;
  for (const Conv2dVariant variant : kernels::conv2d_variants()) {
    const bool pools = name(variant).ends_with("_pooled");
    CAPTURE(name(variant));
    CHECK(supports(variant, p, kHopper) == pools);
    if (!pools) continue;
    CHECK(!supports(variant, plain, kHopper));
    Conv2dParams other = p;
    other.residual = true;
    CHECK(!supports(variant, other, kHopper));
    other = p;
    other.stride_w = 2;
    CHECK(!supports(variant, other, kHopper));
    other = p;
    other.out_h = 1;
    CHECK(!supports(variant, other, kHopper));
    if (name(variant).find("_patch") != std::string_view::npos) continue;  // without dilation
    other = p;
    other.dilation_w = 127;
    other.pad_left = 127;
    CHECK(supports(variant, other, kHopper));
    other.dilation_w = 128;
    CHECK(!supports(variant, other, kHopper));
  }
}

// Copies of a tile to y are still under way when its block ends, and the next kernel may be resident by then.
TEST_CASE("conv2d: a chain of programmatic launches reads and writes whole tiles of y") {
  constexpr int kLength = 40;
  const Layer layer = GENERATE(Layer{2, 28, 28, 128, 128, 1, 1, 1}, Layer{2, 40, 60, 256, 256, 1, 1, 1}, kTwoEach);
  Conv2dParams p = params_of(layer);
  p.residual = true;
  p.activation = kernels::Clip{-1.0F, 1.0F};
  const Data data = random_data(p, 13000);
  std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
  kernels::conv2d_pack(p, data.weight.data(), packed.data());
  const GuardedBuffer weights(packed);
  const DeviceTensor bias(Elem::F32, data.bias);
  for (const auto& [tile, plain] : kTiles) {
    p.residual = !is_persistent(tile);
    if (!supports(plain, p, gpu_traits())) MOBICUDA_SKIP("wgmma needs a GPU of sm_90 and code for sm_90a");
    if (!supports(tile, p, gpu_traits())) continue;
    CAPTURE(name(tile));
    std::vector<std::byte> results[2];
    for (const bool programmatic : {false, true}) {
      const DeviceTensor a(p.elem, data.x);
      const DeviceTensor b(p.elem, data.x.size());
      cudaStream_t stream = nullptr;
      check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
      const kernels::Launch where{stream, programmatic};
      const auto step = [&](Conv2dVariant variant, const DeviceTensor& from, const DeviceTensor& to) {
        const void* const residual = p.residual ? from.data() : nullptr;
        check_cuda(kernels::conv2d(variant, p, from.data(), weights.data(), bias.floats(), residual, to.data(), where),
                   "conv2d");
      };
      for (int i = 0; i < kLength; ++i) {
        step(tile, a, b);
        step(plain, b, a);  // reads b whole, and writes what the kernel before has read
      }
      synchronize();
      check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
      results[programmatic ? 1 : 0] = a.download_bytes();
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("conv2d: a persistent block makes one tile after the other", "[sanitize]") {
  std::uint32_t seed = 12000;
  for (const Layer& layer : kMany) {
    if (is_emulated()) continue;
    const Conv2dParams p = params_of(layer);
    const Device device(p, random_data(p, seed += 10));
    for (const auto& [tile, plain] : kTiles) {
      if (!is_persistent(tile)) continue;
      CAPTURE(name(tile), p);
      if (!supports(plain, p, gpu_traits())) MOBICUDA_SKIP("wgmma needs a GPU of sm_90 and code for sm_90a");
      REQUIRE(compare_bits(device.run(tile), device.run(plain)));
    }
  }
}

TEST_CASE("conv2d: a persistent block adds nothing to its tiles") {
  constexpr kernels::DeviceTraits kHopper = kernels::traits_of(90, 132);
  Conv2dParams p = params_of({32, 14, 14, 512, 512, 3, 1, 1});
  for (const auto& [tile, plain] : kTiles) {
    CAPTURE(name(tile));
    p.residual = false;
    if (!supports(tile, p, kHopper)) MOBICUDA_SKIP("built without code for sm_90a");
    p.residual = true;
    CHECK(supports(tile, p, kHopper) == !is_persistent(tile));
  }
}

TEST_CASE("conv2d: tiles of y need rows of a multiple of 16 bytes") {
  constexpr kernels::DeviceTraits kHopper = kernels::traits_of(90, 132);
  Conv2dParams p = params_of({32, 7, 7, 512, 512, 3, 1, 1});
  if (!supports(Wgmma128x128x64, p, kHopper)) MOBICUDA_SKIP("built without code for sm_90a");
  Conv2dParams odd = p;
  odd.c_out = 508;
  Conv2dParams apart = params_of({1, 7, 7, 128, 48, 3, 1, 2});
  for (const auto& [tile, plain] : kTiles) {
    CAPTURE(name(tile));
    CHECK(supports(tile, p, kHopper));
    CHECK(!supports(tile, p, kernels::traits_of(100, 132)));
    CHECK(!supports(tile, odd, kHopper));
    CHECK(supports(plain, odd, kHopper));
    for (const auto& [pitch, fits] : {std::pair{0, true}, {72, true}, {80, false}}) {
      apart.y_pitch = pitch;
      CHECK(supports(tile, apart, kHopper) == (fits && tile != Wgmma256x128x64PersistentPair));  // one tile a group
      CHECK(supports(plain, apart, kHopper));
    }
    if (conv2d_tile(tile).bm != conv2d_tile(plain).bm) continue;
    CHECK(name(tile).starts_with(std::string(name(plain)) + (is_persistent(tile) ? "_persistent" : "_tile")));
    CHECK(conv2d_work(tile, p).blocks == conv2d_work(plain, p).blocks);
  }
}

}  // namespace
}  // namespace mobicuda::test
