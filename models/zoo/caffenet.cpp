#include "families.h"

namespace mobicuda::zoo {

/// BVLC's reference CaffeNet: AlexNet with its two groups, and pooling before normalisation.
Value write_caffenet(NetworkWriter& net) {
  const auto conv_relu = [&](const std::string& number, const Value& x, const Conv& conv) {
    return net.relu("relu" + number, net.conv("conv" + number, x, conv));
  };
  const auto pool_norm = [&](const std::string& number, const Value& x) {
    return net.local_response_normalization("norm" + number, net.max_pool("pool" + number, x, {3, 2}));
  };
  Value x = pool_norm("1", conv_relu("1", net.input(), valid_conv(96, 11, 4)));
  x = pool_norm("2", conv_relu("2", x, same_conv(256, 5, 1, 2)));
  x = conv_relu("3", x, same_conv(384, 3));
  x = conv_relu("4", x, same_conv(384, 3, 1, 2));
  x = conv_relu("5", x, same_conv(256, 3, 1, 2));
  x = net.flatten("flatten", net.max_pool("pool5", x, {3, 2}));
  x = net.relu("relu6", net.dense("fc6", x, 4096));
  x = net.relu("relu7", net.dense("fc7", x, 4096));
  return net.logits("fc8", x);
}

}  // namespace mobicuda::zoo
