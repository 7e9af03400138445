#include "families.h"

namespace mobicuda::zoo {

/// Network in Network for ImageNet, as the authors' Caffe model: each convolution is followed by two of 1x1, and the
/// last one's maps are the classes.
Value write_network_in_network(NetworkWriter& net) {
  const auto conv_relu = [&](const std::string& name, const Value& x, const Conv& conv) {
    return net.relu("relu_" + name, net.conv(name, x, conv));
  };
  const Pool halve{.kernel = 3, .stride = 2, .ceil_mode = true};

  Value x = conv_relu("conv1", net.input(), valid_conv(96, 11, 4));
  x = conv_relu("cccp1", x, same_conv(96, 1));
  x = conv_relu("cccp2", x, same_conv(96, 1));
  x = net.max_pool("pool0", x, halve);
  x = conv_relu("conv2", x, same_conv(256, 5));
  x = conv_relu("cccp3", x, same_conv(256, 1));
  x = conv_relu("cccp4", x, same_conv(256, 1));
  x = net.max_pool("pool2", x, halve);
  x = conv_relu("conv3", x, same_conv(384, 3));
  x = conv_relu("cccp5", x, same_conv(384, 1));
  x = conv_relu("cccp6", x, same_conv(384, 1));
  x = net.max_pool("pool3", x, halve);
  x = conv_relu("conv4-1024", x, same_conv(1024, 3));
  x = conv_relu("cccp7-1024", x, same_conv(1024, 1));
  x = net.relu("relu_cccp8-1024", net.conv("cccp8-1024", x, same_conv(net.classes(), 1), kLogitMapDeviation));
  return net.flatten("flatten", net.global_average_pool("pool4", x));
}

}  // namespace mobicuda::zoo
