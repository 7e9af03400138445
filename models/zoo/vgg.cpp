#include <array>

#include "families.h"

namespace mobicuda::zoo {
namespace {

struct ConvStage {
  std::int64_t channels, convs;
};

Value write_vgg(NetworkWriter& net, const std::array<ConvStage, 5>& stages) {
  net.set_channel_correlation(0.3);  // nothing but convolutions: with less, rounding grows from each to the next
  Value x = net.input();
  int child = 0;  // torchvision numbers the modules of its one Sequential
  const auto next = [&] { return "features." + std::to_string(child++); };
  for (const ConvStage& stage : stages) {
    for (std::int64_t i = 0; i < stage.convs; ++i) {
      x = net.conv(next(), x, same_conv(stage.channels, 3));
      x = net.relu(next(), x);
    }
    x = net.max_pool(next(), x, {2, 2});
  }
  constexpr std::int64_t kHidden = 4096;
  x = net.relu("classifier.1", net.dense("classifier.0", net.flatten("flatten", x), kHidden));
  x = net.relu("classifier.4", net.dense("classifier.3", x, kHidden));
  return net.logits("classifier.6", x);
}

}  // namespace

Value write_vgg16(NetworkWriter& net) { return write_vgg(net, {{{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}}); }
Value write_vgg19(NetworkWriter& net) { return write_vgg(net, {{{64, 2}, {128, 2}, {256, 4}, {512, 4}, {512, 4}}}); }

}  // namespace mobicuda::zoo
