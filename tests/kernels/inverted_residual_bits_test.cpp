// What inverted_residual promises of bits, NaN and sizes.
#include "kernels/inverted_residual_case.h"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;

/// B8 to B17, in float and in half.
std::vector<InvertedResidualParams> late_blocks(int n) {
  std::vector<InvertedResidualParams> blocks;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    if (layer.size > 14) continue;
    for (const Elem elem : kElems) {
      blocks.push_back(block(layer, n));
      blocks.back().elem = elem;
    }
  }
  return blocks;
}

TEST_CASE("inverted_residual gives a picture of the late blocks' channels the same bits in any batch and every time") {
  constexpr int kPictures = 9;
  constexpr int kRuns = 20;
  for (const InvertedResidualParams& p : late_blocks(kPictures)) {
    InvertedResidualParams one = p;
    one.n = 1;
    const std::size_t size = input_count(one);
    const Data all = random_data(p, 47);
    const Device device(p, all);
    for_each_variant(p, [&](InvertedResidualVariant variant) {
      const std::vector<float> y = device.run(variant);
      for (int i = 1; i < kRuns; ++i) REQUIRE(compare_bits(device.run(variant), y));
      for (const std::size_t n : {0, 4, kPictures - 1}) {
        Data alone = all;
        const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(n * size);
        alone.x.assign(from, from + static_cast<std::ptrdiff_t>(size));
        CAPTURE(n);
        const std::span<const float> in_batch(y.data() + n * output_count(one), output_count(one));
        REQUIRE(compare_bits(Device(one, alone).run(variant), in_batch));
      }
    });
  }
}

TEST_CASE("inverted_residual passes NaN on in the late blocks' channels", "[sanitize][slow]") {
  for (const InvertedResidualParams& p : late_blocks(3)) {
    Data data = random_data(p, 48);
    data.x[count_of(1, p.h / 2, p.w, p.c_in) + 5] = kNan;
    data.x[input_count(p) - 1] = kNan;
    Oracles oracles(p, data);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    for_each_variant(p, [&](InvertedResidualVariant variant) {
      const Tensor& oracle = oracles.of(variant);
      REQUIRE(compare_elements(device.run(variant), oracle.value, oracle.bound, shape));
    });
  }
}

TEST_CASE("inverted_residual gives a picture the same bits alone and in a batch of any size", "[sanitize][slow]") {
  constexpr int kPictures = 70;  // more tiles than a GPU runs at once
  for (const int stride : {1, 2}) {
    for (const auto& [expand, elem] : kForms) {
      InvertedResidualParams p = small_block(kPictures, 30, 29, expand, stride);
      p.elem = elem;
      const Data all = random_data(p, 45);
      const Device device(p, all);
      InvertedResidualParams one = p;
      one.n = 1;
      const std::size_t size = input_count(one);
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        const std::vector<float> y = device.run(variant);
        for (const std::size_t n : {0, 1, 13, kPictures - 1}) {
          Data alone = all;
          const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(n * size);
          alone.x.assign(from, from + static_cast<std::ptrdiff_t>(size));
          CAPTURE(n);
          const std::span<const float> in_batch(y.data() + n * output_count(one), output_count(one));
          REQUIRE(compare_bits(Device(one, alone).run(variant), in_batch));
        }
      });
    }
  }
}

TEST_CASE("inverted_residual gives the same bits a thousand times", "[large]") {
  constexpr int kRuns = 500;  // of two launches
  for (const int stride : {1, 2}) {
    for (const Elem elem : kElems) {
      InvertedResidualParams p = block(3, 28, 28, 32, 192, elem == Elem::F32 && stride == 2 ? 64 : 32, stride);
      p.elem = elem;
      const Data data = random_data(p, 46);
      const Device device(p, data);
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        const std::vector<float> first = device.run(variant);
        for (int i = 1; i < kRuns; ++i) REQUIRE(compare_bits(device.run(variant), first));
      });
    }
  }
}

TEST_CASE("inverted_residual passes NaN on, to the windows that see it only", "[sanitize]") {
  for (const int stride : {1, 2}) {
    for (const auto& [expand, elem] : kForms) {
      InvertedResidualParams p = small_block(2, 15, 16, expand, stride);
      p.elem = elem;
      Data data = random_data(p, 41);
      data.x[count_of(1, 7, 16, p.c_in) + 5] = kNan;
      data.x[input_count(p) - 1] = kNan;
      Oracles oracles(p, data);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        const Tensor& oracle = oracles.of(variant);
        REQUIRE(compare_elements(device.run(variant), oracle.value, oracle.bound, shape));
      });
    }
  }
}

TEST_CASE("inverted_residual in split products makes NaN of infinity, in the windows that see it only", "[sanitize]") {
  for (const int stride : {1, 2}) {
    InvertedResidualParams p = small_block(2, 15, 16, true, stride);
    p.elem = Elem::F32;
    Data data = random_data(p, 43);
    data.x[count_of(1, 7, 16, p.c_in) + 5] = kInfinity;
    Data with_nan = data;
    with_nan.x[count_of(1, 7, 16, p.c_in) + 5] = kNan;
    Oracles oracles(p, with_nan);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    for_each_variant(p, [&](InvertedResidualVariant variant) {
      if (!is_split(variant)) return;
      const Tensor& oracle = oracles.of(variant);
      REQUIRE(compare_elements(device.run(variant), oracle.value, oracle.bound, shape));
    });
  }
}

TEST_CASE("inverted_residual addresses batches of more than 2^31 elements", "[large]") {
  MOBICUDA_SKIP_BELOW(80);
  constexpr int kPictures = 10701;  // 2^31 elements of input and more
  InvertedResidualParams p = block(1, 112, 112, 16, 32, 16, 1);
  const std::size_t bytes = input_count(p) * sizeof(std::uint16_t);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < 3 * bytes * kPictures) MOBICUDA_SKIP("needs 13 GB of GPU memory");

  const Data data = random_data(p, 71);
  const DeviceTensor one(Elem::F16, data.x);
  const InvertedResidualVariant variant = InvertedResidualVariant::S1Tile14x14C48N32;
  const GuardedBuffer weights = pack(variant, p, data);
  const GuardedBuffer x(bytes * kPictures);
  for (std::size_t n = 0; n < kPictures; ++n) {
    check_cuda(cudaMemcpy(static_cast<std::byte*>(x.data()) + n * bytes, one.data(), bytes, cudaMemcpyDeviceToDevice),
               "copy of a picture");
  }
  const DeviceTensor expected(Elem::F16, output_count(p));
  REQUIRE(kernels::inverted_residual(variant, p, one.data(), weights.data(), expected.data(), {}) == cudaSuccess);
  p.n = kPictures;
  GuardedBuffer y(bytes * kPictures);
  REQUIRE(kernels::inverted_residual(variant, p, x.data(), weights.data(), y.data(), {}) == cudaSuccess);
  synchronize();
  for (const std::size_t n : {0, 1, 5349, 5350, 5351, 10698, 10699, 10700}) {
    CAPTURE(n);
    std::vector<std::byte> picture(bytes);
    check_cuda(
        cudaMemcpy(picture.data(), static_cast<const std::byte*>(y.data()) + n * bytes, bytes, cudaMemcpyDeviceToHost),
        "download of a picture");
    REQUIRE(picture == expected.download_bytes());
  }
  REQUIRE(y.check_guards());
}

}  // namespace
}  // namespace mobicuda::test
