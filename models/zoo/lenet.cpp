#include "families.h"

namespace mobicuda::zoo {

/// LeNet as MXNet's examples have it, which the ECE 408 project took over with a convolution of its own: one without
/// bias.
Value write_lenet(NetworkWriter& net) {
  Value x = net.conv_without_bias("conv1", net.input(), valid_conv(20, 5));
  x = net.max_pool("pool1", net.tanh("tanh1", x), {2, 2});
  x = net.conv_without_bias("conv2", x, valid_conv(50, 5));
  x = net.max_pool("pool2", net.tanh("tanh2", x), {2, 2});
  x = net.dense("fc1", net.flatten("flatten", x), 500);
  return net.logits("fc2", net.tanh("tanh3", x));
}

}  // namespace mobicuda::zoo
