#include <array>

#include "families.h"

namespace mobicuda::zoo {
namespace {

struct ResNet {
  std::array<std::int64_t, 4> blocks;
  bool bottleneck = true;
  std::int64_t groups = 1;
  std::int64_t base_width = 64;  ///< of a group in the first stage
};

/// The last normalisation of a block: training leaves its scales small, and so sums and roundings grow slowly over many
/// blocks.
constexpr BatchNormStyle kBasicEnd{.gain = 0.5};
constexpr BatchNormStyle kBottleneckEnd{.gain = 0.2};

Value basic_branch(NetworkWriter& net, const std::string& prefix, const Value& x, std::int64_t planes,
                   std::int64_t stride) {
  Value y = net.conv_bn(prefix + ".conv1", prefix + ".bn1", x, same_conv(planes, 3, stride));
  y = net.relu(prefix + ".relu1", y);
  return net.conv_bn(prefix + ".conv2", prefix + ".bn2", y, same_conv(planes, 3), kBasicEnd);
}

/// With the stride at the 3x3 convolution, as torchvision has it.
Value bottleneck_branch(NetworkWriter& net, const ResNet& shape, const std::string& prefix, const Value& x,
                        std::int64_t planes, std::int64_t stride) {
  const std::int64_t width = planes * shape.base_width / 64 * shape.groups;
  Value y = net.conv_bn(prefix + ".conv1", prefix + ".bn1", x, same_conv(width, 1));
  y = net.relu(prefix + ".relu1", y);
  y = net.conv_bn(prefix + ".conv2", prefix + ".bn2", y, same_conv(width, 3, stride, shape.groups));
  y = net.relu(prefix + ".relu2", y);
  return net.conv_bn(prefix + ".conv3", prefix + ".bn3", y, same_conv(4 * planes, 1), kBottleneckEnd);
}

Value write_stages(NetworkWriter& net, const ResNet& shape, Value x) {
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    const std::int64_t planes = std::int64_t{64} << stage;
    const std::int64_t outputs = shape.bottleneck ? 4 * planes : planes;
    for (std::int64_t block = 0; block < shape.blocks[stage]; ++block) {
      const std::string prefix = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      const std::int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      const Value branch = shape.bottleneck ? bottleneck_branch(net, shape, prefix, x, planes, stride)
                                            : basic_branch(net, prefix, x, planes, stride);
      Value shortcut = x;
      if (stride != 1 || x.depth() != outputs) {
        shortcut = net.conv_bn(prefix + ".downsample.0", prefix + ".downsample.1", x, same_conv(outputs, 1, stride));
      }
      x = net.relu(prefix + ".relu", net.add(prefix + ".add", branch, shortcut));
    }
  }
  return net.logits("fc", net.flatten("flatten", net.global_average_pool("avgpool", x)));
}

Value write_for_imagenet(NetworkWriter& net, const ResNet& shape) {
  // Four times as many channels as a bottleneck's 3x3 convolution made; measured on ResNet-152, where 0.15 lets logits
  // grow to twice what they are at 0.2.
  net.set_channel_correlation(0.2);
  const Value stem = net.conv_bn("conv1", "bn1", net.input(), same_conv(64, 7, 2));
  return write_stages(net, shape, net.max_pool("maxpool", net.relu("relu", stem), {3, 2, 1}));
}

}  // namespace

/// The ImageNet network with a stem for small pictures: one 3x3 convolution that keeps the extent, and no pool.
Value write_resnet34_cifar(NetworkWriter& net) {
  const Value stem = net.conv_bn("conv1", "bn1", net.input(), same_conv(64, 3));
  return write_stages(net, {.blocks = {3, 4, 6, 3}, .bottleneck = false}, net.relu("relu", stem));
}

Value write_resnet50(NetworkWriter& net) { return write_for_imagenet(net, {.blocks = {3, 4, 6, 3}}); }
Value write_resnet152(NetworkWriter& net) { return write_for_imagenet(net, {.blocks = {3, 8, 36, 3}}); }

Value write_resnext101_64x4d(NetworkWriter& net) {
  return write_for_imagenet(net, {.blocks = {3, 4, 23, 3}, .groups = 64, .base_width = 4});
}

}  // namespace mobicuda::zoo
