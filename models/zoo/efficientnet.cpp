#include <algorithm>
#include <array>

#include "families.h"

namespace mobicuda::zoo {
namespace {

struct MbConvStage {
  std::int64_t expansion, kernel, stride, outputs, blocks;
};

constexpr std::array<MbConvStage, 7> kMbConvStages{{{1, 3, 1, 16, 1},
                                                    {6, 3, 2, 24, 2},
                                                    {6, 5, 2, 40, 2},
                                                    {6, 3, 2, 80, 3},
                                                    {6, 5, 1, 112, 3},
                                                    {6, 5, 2, 192, 4},
                                                    {6, 3, 1, 320, 1}}};

Value conv_silu(NetworkWriter& net, const std::string& prefix, const Value& x, const Conv& conv) {
  const BatchNormStyle norm{.gain = kSwishGain, .shift = kSwishGain};
  return net.silu(prefix + ".2", net.conv_bn(prefix + ".0", prefix + ".1", x, conv, norm));
}

Value squeeze_excite(NetworkWriter& net, const std::string& prefix, const Value& x, std::int64_t squeezed) {
  Value gate = net.global_average_pool(prefix + ".avgpool", x);
  gate = net.silu(prefix + ".activation", net.conv(prefix + ".fc1", gate, same_conv(squeezed, 1), kSwishGain));
  gate = net.sigmoid(prefix + ".scale_activation", net.conv(prefix + ".fc2", gate, same_conv(x.depth(), 1)));
  return net.multiply(prefix, x, gate);
}

Value block(NetworkWriter& net, const std::string& prefix, const Value& x, const MbConvStage& stage,
            std::int64_t stride) {
  const std::int64_t hidden = x.depth() * stage.expansion;
  int child = 0;
  const auto next = [&] { return prefix + ".block." + std::to_string(child++); };
  Value y = stage.expansion == 1 ? x : conv_silu(net, next(), x, same_conv(hidden, 1));
  y = conv_silu(net, next(), y, same_conv(hidden, stage.kernel, stride, hidden));
  y = squeeze_excite(net, next(), y, std::max<std::int64_t>(1, x.depth() / 4));
  const std::string project = next();
  y = net.conv_bn(project + ".0", project + ".1", y, same_conv(stage.outputs, 1));
  return stride == 1 && stage.outputs == x.depth() ? net.add(prefix + ".add", y, x) : y;
}

}  // namespace

/// EfficientNet-B0 as in torchvision.
Value write_efficientnet_b0(NetworkWriter& net) {
  constexpr std::int64_t kLast = 1280;
  Value x = conv_silu(net, "features.0", net.input(), same_conv(32, 3, 2));
  for (std::size_t s = 0; s < kMbConvStages.size(); ++s) {
    for (std::int64_t i = 0; i < kMbConvStages[s].blocks; ++i) {
      const std::string prefix = "features." + std::to_string(s + 1) + "." + std::to_string(i);
      x = block(net, prefix, x, kMbConvStages[s], i == 0 ? kMbConvStages[s].stride : 1);
    }
  }
  x = conv_silu(net, "features.8", x, same_conv(kLast, 1));
  return net.logits("classifier.1", net.flatten("flatten", net.global_average_pool("avgpool", x)));
}

}  // namespace mobicuda::zoo
