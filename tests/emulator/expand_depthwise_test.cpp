// expand_depthwise on the CPU for the blocks of networks: all numbers of input channels that there is code for, both
// windows and strides, several images in a block.
#include <vector>

#include "kernels/expand_depthwise_case.h"

namespace mobicuda::test {
namespace {

using namespace expand_depthwise_case;

constexpr int kInputs[] = {24, 40, 80, 112, 128, 160, 184, 192, 248};

// The emulated GPU holds the blocks of 19 images of so many hidden channels at most: some blocks take two.
constexpr int kManyPictures = 25;
constexpr int kManyChannels = 160;
constexpr ExpandDepthwiseVariant kWholePictures[] = {
    ExpandDepthwiseVariant::Slice8Bands1, ExpandDepthwiseVariant::Slice16Bands1, ExpandDepthwiseVariant::Slice32Bands1,
    ExpandDepthwiseVariant::Slice32Strip7Bands1};

TEST_CASE("emulator: expand_depthwise equals the oracle for every number of input channels") {
  std::uint32_t seed = 500;
  for (const auto& [kernel, stride] : kWindows) {
    for (const int c_in : kInputs) {
      const ExpandDepthwiseParams p = same_padded(2, 9, 7, c_in, 32, stride, kernel);
      REQUIRE(supported(p) >= 12);
      check_against_oracle(p, random_data(p, seed));
      seed += 10;
    }
  }
}

TEST_CASE("emulator: expand_depthwise takes several images in a block, the next one's pixels read ahead or not") {
  for (const auto& [kernel, stride] : kWindows) {
    for (const int c_in : {24, 184}) {
      ExpandDepthwiseParams p = same_padded(kManyPictures, 7, 7, c_in, kManyChannels, stride, kernel);
      p.expand_activation = kExactHidden;
      check_exact(p, integer_data(p, 90), kWholePictures);
    }
  }
}

TEST_CASE("emulator: expand_depthwise equals the oracle on blocks of 14x14 and 7x7 with windows of 5x5") {
  std::uint32_t seed = 600;
  for (const auto& p : {same_padded(1, 14, 14, 112, 64, 1, 5), same_padded(1, 14, 14, 112, 32, 2, 5),
                        same_padded(2, 7, 7, 192, 64, 1, 5)}) {
    check_against_oracle(p, random_data(p, seed));
    seed += 10;
  }
}

TEST_CASE("emulator: expand_depthwise keeps what lies behind a pixel's channels out") {
  for (const int c_in : {24, 104, 184, 248}) {  // the last block of k is partial, or there are blocks beyond
    ExpandDepthwiseParams p = same_padded(1, 1, 2, c_in, 32, 1, 5);
    p.out_w = 1;
    p.pad_left = 4;  // the only window sees the first pixel only
    Data data = random_data(p, 70);
    for (std::size_t i = static_cast<std::size_t>(c_in); i < data.x.size(); ++i) data.x[i] = kNan;
    check_against_oracle(p, data);
  }
}

}  // namespace
}  // namespace mobicuda::test
