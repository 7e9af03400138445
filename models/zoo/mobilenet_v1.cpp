#include <array>

#include "families.h"

namespace mobicuda::zoo {

/// MobileNetV1 1.0 with ReLU6, named as in Keras.
Value write_mobilenet_v1(NetworkWriter& net) {
  struct Block {
    std::int64_t outputs, stride;
  };
  constexpr std::array<Block, 13> kBlocks{{{64, 1},
                                           {128, 2},
                                           {128, 1},
                                           {256, 2},
                                           {256, 1},
                                           {512, 2},
                                           {512, 1},
                                           {512, 1},
                                           {512, 1},
                                           {512, 1},
                                           {512, 1},
                                           {1024, 2},
                                           {1024, 1}}};
  net.set_channel_correlation(0.25);  // nothing but convolutions: with less, rounding grows from each to the next
  const BatchNormStyle norm{.epsilon = 1e-3F};
  const auto conv_relu = [&](const std::string& name, const Value& x, const Conv& conv) {
    return net.relu6(name + "_relu", net.conv_bn(name, name + "_bn", x, conv, norm));
  };
  Value x = conv_relu("conv1", net.input(), same_conv(32, 3, 2));
  int number = 0;
  for (const Block& block : kBlocks) {
    const std::string suffix = std::to_string(++number);
    x = conv_relu("conv_dw_" + suffix, x, same_conv(x.depth(), 3, block.stride, x.depth()));
    x = conv_relu("conv_pw_" + suffix, x, same_conv(block.outputs, 1));
  }
  return net.logits("conv_preds", net.flatten("flatten", net.global_average_pool("global_average_pooling2d", x)));
}

}  // namespace mobicuda::zoo
