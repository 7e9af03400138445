#include <array>

#include "families.h"

namespace mobicuda::zoo {
namespace {

constexpr std::int64_t kGrowth = 32;

Value dense_layer(NetworkWriter& net, const std::string& prefix, const Value& x) {
  constexpr std::int64_t kBottleneck = 4 * kGrowth;
  Value y = net.relu(prefix + ".relu1", net.batchnorm(prefix + ".norm1", x));
  y = net.conv_bn(prefix + ".conv1", prefix + ".norm2", y, same_conv(kBottleneck, 1));
  // Nothing normalises this one but the layers that read it, each for itself.
  return net.conv_without_bias(prefix + ".conv2", net.relu(prefix + ".relu2", y), same_conv(kGrowth, 3));
}

/// Every layer reads all maps written before it in its block. torchvision concatenates them anew for each layer;
/// appending to what was concatenated before has the same channels in the same order.
Value dense_block(NetworkWriter& net, const std::string& prefix, Value x, std::int64_t layers) {
  for (std::int64_t i = 1; i <= layers; ++i) {
    const std::string layer = prefix + ".denselayer" + std::to_string(i);
    x = net.concat(layer + ".concat", {x, dense_layer(net, layer, x)});
  }
  return x;
}

Value transition(NetworkWriter& net, const std::string& prefix, const Value& x) {
  const Value y = net.relu(prefix + ".relu", net.batchnorm(prefix + ".norm", x));
  return net.average_pool(prefix + ".pool", net.conv_without_bias(prefix + ".conv", y, same_conv(x.depth() / 2, 1)),
                          {2, 2});
}

}  // namespace

/// DenseNet-201 as in torchvision.
Value write_densenet201(NetworkWriter& net) {
  constexpr std::array<std::int64_t, 4> kLayers{6, 12, 48, 32};
  Value x = net.conv_bn("features.conv0", "features.norm0", net.input(), same_conv(2 * kGrowth, 7, 2));
  x = net.max_pool("features.pool0", net.relu("features.relu0", x), {3, 2, 1});
  for (std::size_t block = 1; block <= kLayers.size(); ++block) {
    x = dense_block(net, "features.denseblock" + std::to_string(block), x, kLayers[block - 1]);
    if (block < kLayers.size()) x = transition(net, "features.transition" + std::to_string(block), x);
  }
  x = net.relu("relu", net.batchnorm("features.norm5", x));
  return net.logits("classifier", net.flatten("flatten", net.global_average_pool("pool", x)));
}

}  // namespace mobicuda::zoo
