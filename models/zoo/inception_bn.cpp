#include <array>

#include "families.h"

namespace mobicuda::zoo {
namespace {

/// Channels of a module's branches; one without a 1x1 branch halves the extent and passes its pool on.
struct Module {
  const char* name;
  std::int64_t one, three_reduce, three, double_reduce, double_three, projection;
  bool max_pool = false;

  bool halves() const { return one == 0; }
};

constexpr std::array<Module, 10> kModules{{{"3a", 64, 64, 64, 64, 96, 32},
                                           {"3b", 64, 64, 96, 64, 96, 64},
                                           {"3c", 0, 128, 160, 64, 96, 0, true},
                                           {"4a", 224, 64, 96, 96, 128, 128},
                                           {"4b", 192, 96, 128, 96, 128, 128},
                                           {"4c", 160, 128, 160, 128, 160, 128},
                                           {"4d", 96, 128, 192, 160, 192, 128},
                                           {"4e", 0, 128, 192, 192, 256, 0, true},
                                           {"5a", 352, 192, 320, 160, 224, 128},
                                           {"5b", 352, 192, 320, 192, 224, 128, true}}};

Value conv_relu(NetworkWriter& net, const std::string& name, const Value& x, const Conv& conv) {
  // MXNet's convolutions keep their bias in front of the normalisation.
  constexpr BatchNormStyle kNorm{.conv_bias = true};
  return net.relu("relu_" + name, net.conv_bn("conv_" + name, "bn_" + name, x, conv, kNorm));
}

Value inception(NetworkWriter& net, const Value& x, const Module& module) {
  const std::string name = module.name;
  const std::int64_t stride = module.halves() ? 2 : 1;
  std::vector<Value> branches;
  if (!module.halves()) branches.push_back(conv_relu(net, name + "_1x1", x, same_conv(module.one, 1)));
  const Value reduced = conv_relu(net, name + "_3x3_reduce", x, same_conv(module.three_reduce, 1));
  branches.push_back(conv_relu(net, name + "_3x3", reduced, same_conv(module.three, 3, stride)));
  Value twice = conv_relu(net, name + "_double_3x3_reduce", x, same_conv(module.double_reduce, 1));
  twice = conv_relu(net, name + "_double_3x3_0", twice, same_conv(module.double_three, 3));
  branches.push_back(conv_relu(net, name + "_double_3x3_1", twice, same_conv(module.double_three, 3, stride)));
  const Pool pool{.kernel = 3, .stride = stride, .pad = 1};
  const Value pooled = module.max_pool ? net.max_pool("max_pool_" + name + "_pool", x, pool)
                                       : net.average_pool("avg_pool_" + name + "_pool", x, pool, true);
  branches.push_back(module.halves() ? pooled
                                     : conv_relu(net, name + "_proj", pooled, same_conv(module.projection, 1)));
  return net.concat("ch_concat_" + name + "_chconcat", branches);
}

}  // namespace

/// Inception with BatchNormalization (v2) as in MXNet's model zoo.
Value write_inception_bn(NetworkWriter& net) {
  const Pool halve{.kernel = 3, .stride = 2, .ceil_mode = true};
  Value x = conv_relu(net, "1", net.input(), same_conv(64, 7, 2));
  x = conv_relu(net, "2_red", net.max_pool("pool_1", x, halve), same_conv(64, 1));
  x = net.max_pool("pool_2", conv_relu(net, "2", x, same_conv(192, 3)), halve);
  for (const Module& module : kModules) x = inception(net, x, module);
  return net.logits("fc1", net.flatten("flatten", net.global_average_pool("global_pool", x)));
}

}  // namespace mobicuda::zoo
