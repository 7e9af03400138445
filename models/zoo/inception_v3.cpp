#include "families.h"

namespace mobicuda::zoo {
namespace {

/// One module of torchvision's Inception3: its branches are written under one prefix and concatenated.
class ModuleWriter {
 public:
  ModuleWriter(NetworkWriter& net, std::string prefix) : net_(net), prefix_(std::move(prefix)) {}

  Value conv(const std::string& name, const Value& x, const Conv& conv) {
    constexpr BatchNormStyle kNorm{.epsilon = 1e-3F};
    const std::string full = prefix_ + "." + name;
    return net_.relu(full + ".relu", net_.conv_bn(full + ".conv", full + ".bn", x, conv, kNorm));
  }
  /// 1 x `kernel` and `kernel` x 1.
  Value row(const std::string& name, const Value& x, std::int64_t outputs, std::int64_t kernel) {
    return conv(name, x, {outputs, {1, kernel}, {0, kernel / 2}});
  }
  Value column(const std::string& name, const Value& x, std::int64_t outputs, std::int64_t kernel) {
    return conv(name, x, {outputs, {kernel, 1}, {kernel / 2, 0}});
  }
  Value average(const Value& x) { return net_.average_pool(prefix_ + ".pool", x, {3, 1, 1}, true); }
  Value halved(const Value& x) { return net_.max_pool(prefix_ + ".pool", x, {3, 2}); }
  Value concat(const std::vector<Value>& branches) { return net_.concat(prefix_, branches); }
  Value concat(const std::string& name, const std::vector<Value>& parts) {
    return net_.concat(prefix_ + "." + name, parts);
  }

 private:
  NetworkWriter& net_;
  std::string prefix_;
};

Value inception_a(NetworkWriter& net, const std::string& prefix, const Value& x, std::int64_t pool_features) {
  ModuleWriter module(net, prefix);
  const Value one = module.conv("branch1x1", x, same_conv(64, 1));
  const Value five = module.conv("branch5x5_2", module.conv("branch5x5_1", x, same_conv(48, 1)), same_conv(64, 5));
  Value twice = module.conv("branch3x3dbl_1", x, same_conv(64, 1));
  twice = module.conv("branch3x3dbl_2", twice, same_conv(96, 3));
  twice = module.conv("branch3x3dbl_3", twice, same_conv(96, 3));
  const Value pool = module.conv("branch_pool", module.average(x), same_conv(pool_features, 1));
  return module.concat({one, five, twice, pool});
}

Value inception_b(NetworkWriter& net, const std::string& prefix, const Value& x) {
  ModuleWriter module(net, prefix);
  const Value three = module.conv("branch3x3", x, valid_conv(384, 3, 2));
  Value twice = module.conv("branch3x3dbl_1", x, same_conv(64, 1));
  twice = module.conv("branch3x3dbl_2", twice, same_conv(96, 3));
  twice = module.conv("branch3x3dbl_3", twice, valid_conv(96, 3, 2));
  return module.concat({three, twice, module.halved(x)});
}

Value inception_c(NetworkWriter& net, const std::string& prefix, const Value& x, std::int64_t hidden) {
  constexpr std::int64_t kOutputs = 192;
  ModuleWriter module(net, prefix);
  const Value one = module.conv("branch1x1", x, same_conv(kOutputs, 1));
  Value seven = module.conv("branch7x7_1", x, same_conv(hidden, 1));
  seven = module.row("branch7x7_2", seven, hidden, 7);
  seven = module.column("branch7x7_3", seven, kOutputs, 7);
  Value twice = module.conv("branch7x7dbl_1", x, same_conv(hidden, 1));
  twice = module.column("branch7x7dbl_2", twice, hidden, 7);
  twice = module.row("branch7x7dbl_3", twice, hidden, 7);
  twice = module.column("branch7x7dbl_4", twice, hidden, 7);
  twice = module.row("branch7x7dbl_5", twice, kOutputs, 7);
  const Value pool = module.conv("branch_pool", module.average(x), same_conv(kOutputs, 1));
  return module.concat({one, seven, twice, pool});
}

Value inception_d(NetworkWriter& net, const std::string& prefix, const Value& x) {
  ModuleWriter module(net, prefix);
  Value three = module.conv("branch3x3_1", x, same_conv(192, 1));
  three = module.conv("branch3x3_2", three, valid_conv(320, 3, 2));
  Value seven = module.conv("branch7x7x3_1", x, same_conv(192, 1));
  seven = module.row("branch7x7x3_2", seven, 192, 7);
  seven = module.column("branch7x7x3_3", seven, 192, 7);
  seven = module.conv("branch7x7x3_4", seven, valid_conv(192, 3, 2));
  return module.concat({three, seven, module.halved(x)});
}

Value inception_e(NetworkWriter& net, const std::string& prefix, const Value& x) {
  constexpr std::int64_t kHalf = 384;
  ModuleWriter module(net, prefix);
  const Value one = module.conv("branch1x1", x, same_conv(320, 1));
  const Value three = module.conv("branch3x3_1", x, same_conv(kHalf, 1));
  const Value three_row = module.row("branch3x3_2a", three, kHalf, 3);
  const Value three_both = module.concat("branch3x3", {three_row, module.column("branch3x3_2b", three, kHalf, 3)});
  Value twice = module.conv("branch3x3dbl_1", x, same_conv(448, 1));
  twice = module.conv("branch3x3dbl_2", twice, same_conv(kHalf, 3));
  const Value twice_row = module.row("branch3x3dbl_3a", twice, kHalf, 3);
  const Value twice_both =
      module.concat("branch3x3dbl", {twice_row, module.column("branch3x3dbl_3b", twice, kHalf, 3)});
  const Value pool = module.conv("branch_pool", module.average(x), same_conv(192, 1));
  return module.concat({one, three_both, twice_both, pool});
}

Value stem_conv(NetworkWriter& net, const std::string& prefix, const Value& x, const Conv& conv) {
  const Value y = net.conv_bn(prefix + ".conv", prefix + ".bn", x, conv, {.epsilon = 1e-3F});
  return net.relu(prefix + ".relu", y);
}

}  // namespace

/// Inception v3 as in torchvision, without the auxiliary classifier, which inference does not run.
Value write_inception_v3(NetworkWriter& net) {
  net.set_channel_correlation(0.1);
  Value x = stem_conv(net, "Conv2d_1a_3x3", net.input(), valid_conv(32, 3, 2));
  x = stem_conv(net, "Conv2d_2a_3x3", x, valid_conv(32, 3));
  x = stem_conv(net, "Conv2d_2b_3x3", x, same_conv(64, 3));
  x = net.max_pool("maxpool1", x, {3, 2});
  x = stem_conv(net, "Conv2d_3b_1x1", x, same_conv(80, 1));
  x = stem_conv(net, "Conv2d_4a_3x3", x, valid_conv(192, 3));
  x = net.max_pool("maxpool2", x, {3, 2});
  x = inception_a(net, "Mixed_5b", x, 32);
  x = inception_a(net, "Mixed_5c", x, 64);
  x = inception_a(net, "Mixed_5d", x, 64);
  x = inception_b(net, "Mixed_6a", x);
  x = inception_c(net, "Mixed_6b", x, 128);
  x = inception_c(net, "Mixed_6c", x, 160);
  x = inception_c(net, "Mixed_6d", x, 160);
  x = inception_c(net, "Mixed_6e", x, 192);
  x = inception_d(net, "Mixed_7a", x);
  x = inception_e(net, "Mixed_7b", x);
  x = inception_e(net, "Mixed_7c", x);
  return net.logits("fc", net.flatten("flatten", net.global_average_pool("avgpool", x)));
}

}  // namespace mobicuda::zoo
