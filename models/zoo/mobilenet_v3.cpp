#include <array>

#include "families.h"
#include "mobilenet_v2.h"

namespace mobicuda::zoo {
namespace {

struct Block {
  std::int64_t kernel, hidden, outputs;
  bool squeeze_excite, hard_swish;
  std::int64_t stride;
};

constexpr std::array<Block, 15> kBlocks{{{3, 16, 16, false, false, 1},
                                         {3, 64, 24, false, false, 2},
                                         {3, 72, 24, false, false, 1},
                                         {5, 72, 40, true, false, 2},
                                         {5, 120, 40, true, false, 1},
                                         {5, 120, 40, true, false, 1},
                                         {3, 240, 80, false, true, 2},
                                         {3, 200, 80, false, true, 1},
                                         {3, 184, 80, false, true, 1},
                                         {3, 184, 80, false, true, 1},
                                         {3, 480, 112, true, true, 1},
                                         {3, 672, 112, true, true, 1},
                                         {5, 672, 160, true, true, 2},
                                         {5, 960, 160, true, true, 1},
                                         {5, 960, 160, true, true, 1}}};
constexpr float kEpsilon = 1e-3F;

Value conv_layer(NetworkWriter& net, const std::string& prefix, const Value& x, const Conv& conv, bool hard_swish) {
  const double deviation = hard_swish ? kSwishGain : 1.0;
  const BatchNormStyle norm{.epsilon = kEpsilon, .gain = deviation, .shift = deviation};
  const Value y = net.conv_bn(prefix + ".0", prefix + ".1", x, conv, norm);
  return hard_swish ? net.hard_swish(prefix + ".2", y) : net.relu(prefix + ".2", y);
}

Value squeeze_excite(NetworkWriter& net, const std::string& prefix, const Value& x) {
  const std::int64_t squeezed = make_divisible(static_cast<double>(x.depth()) / 4.0);
  Value gate = net.global_average_pool(prefix + ".avgpool", x);
  gate = net.relu(prefix + ".activation", net.conv(prefix + ".fc1", gate, same_conv(squeezed, 1)));
  gate = net.hard_sigmoid(prefix + ".scale_activation", net.conv(prefix + ".fc2", gate, same_conv(x.depth(), 1)));
  return net.multiply(prefix, x, gate);
}

Value inverted_residual(NetworkWriter& net, const std::string& prefix, const Value& x, const Block& block) {
  int child = 0;
  const auto next = [&] { return prefix + ".block." + std::to_string(child++); };
  Value y = x;
  if (block.hidden != x.depth()) y = conv_layer(net, next(), y, same_conv(block.hidden, 1), block.hard_swish);
  y = conv_layer(net, next(), y, same_conv(block.hidden, block.kernel, block.stride, block.hidden), block.hard_swish);
  if (block.squeeze_excite) y = squeeze_excite(net, next(), y);
  const std::string project = next();
  y = net.conv_bn(project + ".0", project + ".1", y, same_conv(block.outputs, 1), {.epsilon = kEpsilon});
  return block.stride == 1 && block.outputs == x.depth() ? net.add(prefix + ".add", y, x) : y;
}

}  // namespace

/// MobileNetV3-Large 1.0 as in torchvision.
Value write_mobilenet_v3_large(NetworkWriter& net) {
  constexpr std::int64_t kHidden = 1280;
  Value x = conv_layer(net, "features.0", net.input(), same_conv(16, 3, 2), true);
  int number = 0;
  for (const Block& block : kBlocks) x = inverted_residual(net, "features." + std::to_string(++number), x, block);
  x = conv_layer(net, "features." + std::to_string(number + 1), x, same_conv(6 * x.depth(), 1), true);
  x = net.flatten("flatten", net.global_average_pool("avgpool", x));
  x = net.hard_swish("classifier.1", net.dense("classifier.0", x, kHidden, kSwishGain));
  return net.logits("classifier.3", x);
}

}  // namespace mobicuda::zoo
