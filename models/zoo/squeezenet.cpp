#include "families.h"

namespace mobicuda::zoo {
namespace {

Value fire(NetworkWriter& net, const std::string& prefix, const Value& x, std::int64_t squeeze, std::int64_t expand) {
  const Value squeezed =
      net.relu(prefix + ".squeeze_activation", net.conv(prefix + ".squeeze", x, same_conv(squeeze, 1)));
  const Value one = net.conv(prefix + ".expand1x1", squeezed, same_conv(expand, 1));
  const Value one_active = net.relu(prefix + ".expand1x1_activation", one);
  const Value three = net.conv(prefix + ".expand3x3", squeezed, same_conv(expand, 3));
  const Value three_active = net.relu(prefix + ".expand3x3_activation", three);
  return net.concat(prefix, {one_active, three_active});
}

}  // namespace

/// SqueezeNet 1.1 as in torchvision.
Value write_squeezenet1_1(NetworkWriter& net) {
  const Pool halve{.kernel = 3, .stride = 2, .ceil_mode = true};
  Value x = net.relu("features.1", net.conv("features.0", net.input(), valid_conv(64, 3, 2)));
  x = net.max_pool("features.2", x, halve);
  x = fire(net, "features.3", x, 16, 64);
  x = fire(net, "features.4", x, 16, 64);
  x = net.max_pool("features.5", x, halve);
  x = fire(net, "features.6", x, 32, 128);
  x = fire(net, "features.7", x, 32, 128);
  x = net.max_pool("features.8", x, halve);
  x = fire(net, "features.9", x, 48, 192);
  x = fire(net, "features.10", x, 48, 192);
  x = fire(net, "features.11", x, 64, 256);
  x = fire(net, "features.12", x, 64, 256);
  x = net.relu("classifier.2", net.conv("classifier.1", x, same_conv(net.classes(), 1), kLogitMapDeviation));
  return net.flatten("flatten", net.global_average_pool("classifier.3", x));
}

}  // namespace mobicuda::zoo
