#include "networks.h"

#include <algorithm>
#include <array>
#include <string>

#include <mobicuda/error.h>
#include "families.h"

namespace mobicuda::zoo {
namespace {

using Write = Value (*)(NetworkWriter&);

// Opset 11 has every other operator in the form that later ones kept; HardSwish came with 14.
constexpr std::int64_t kCommonOpset = 11;
constexpr std::int64_t kHardSwishOpset = 14;

struct Entry {
  NetworkInfo info;
  Write write;
};

constexpr std::array kEntries{
    Entry{{"lenet", "LeNet (ECE 408)", 1, 28, 28, 10, kCommonOpset, false}, write_lenet},
    Entry{{"caffenet", "CaffeNet", 3, 227, 227, 1000, kCommonOpset, false}, write_caffenet},
    Entry{{"network_in_network", "Network in Network", 3, 224, 64, 1000, kCommonOpset, false},
          write_network_in_network},
    Entry{{"vgg16", "VGG16", 3, 224, 224, 1000, kCommonOpset, false}, write_vgg16},
    Entry{{"vgg19", "VGG19", 3, 224, 224, 1000, kCommonOpset, false}, write_vgg19},
    Entry{{"squeezenet1_1", "SqueezeNet 1.1", 3, 224, 32, 1000, kCommonOpset, false}, write_squeezenet1_1},
    Entry{{"resnet34_cifar", "ResNet-34 (CIFAR-10)", 3, 32, 16, 10, kCommonOpset, true}, write_resnet34_cifar},
    Entry{{"resnet50", "ResNet-50", 3, 224, 32, 1000, kCommonOpset, true}, write_resnet50},
    Entry{{"resnet152", "ResNet-152", 3, 224, 32, 1000, kCommonOpset, true}, write_resnet152},
    Entry{{"resnext101_64x4d", "ResNeXt101-64x4d", 3, 224, 32, 1000, kCommonOpset, true}, write_resnext101_64x4d},
    Entry{{"densenet201", "DenseNet-201", 3, 224, 32, 1000, kCommonOpset, true}, write_densenet201},
    Entry{{"inception_bn", "Inception-BN", 3, 224, 32, 1000, kCommonOpset, true}, write_inception_bn},
    Entry{{"inception_v3", "Inception v3", 3, 299, 75, 1000, kCommonOpset, true}, write_inception_v3},
    Entry{{"mobilenet_v1", "MobileNetV1", 3, 224, 32, 1000, kCommonOpset, true}, write_mobilenet_v1},
    Entry{{"mobilenet_v3_large", "MobileNetV3-Large", 3, 224, 32, 1000, kHardSwishOpset, true},
          write_mobilenet_v3_large},
    Entry{{"efficientnet_b0", "EfficientNet-B0", 3, 224, 32, 1000, kCommonOpset, true}, write_efficientnet_b0},
};

constexpr auto kNetworks = [] {
  std::array<NetworkInfo, kEntries.size()> infos{};
  std::ranges::transform(kEntries, infos.begin(), &Entry::info);
  return infos;
}();

[[noreturn]] void refuse(const NetworkInfo& info, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, std::string(info.name), why);
}

void require_in(const NetworkInfo& info, const char* option, std::int64_t value, std::int64_t least,
                std::int64_t most) {
  if (value >= least && value <= most) return;
  refuse(info, std::string(option) + " must be in " + std::to_string(least) + ".." + std::to_string(most) + ", got " +
                   std::to_string(value));
}

void check_resolution(const NetworkInfo& info, const char* option, std::int64_t value) {
  if (value == 0 || value == info.resolution) return;
  if (info.fixed_resolution()) {
    refuse(info, std::string(option) + ": its fully connected layers fix the picture at " +
                     std::to_string(info.resolution) + "x" + std::to_string(info.resolution) + ", got " +
                     std::to_string(value));
  }
  require_in(info, option, value, info.least_resolution, kLargestResolution);
}

}  // namespace

std::span<const NetworkInfo> networks() { return kNetworks; }

const NetworkInfo* find_network(std::string_view name) {
  const auto found = std::ranges::find(kNetworks, name, &NetworkInfo::name);
  return found == kNetworks.end() ? nullptr : &*found;
}

onnx_schema::ModelProto build_network(std::string_view name, const NetworkOptions& options) {
  const NetworkInfo* info = find_network(name);
  if (info == nullptr) throw Error(ErrorCode::invalid_argument, std::string(name), "no network of this name");
  check_resolution(*info, "height", options.height);
  check_resolution(*info, "picture_width", options.picture_width);
  require_in(*info, "classes", options.classes, 0, 100000);
  require_in(*info, "opset", options.opset, info->least_opset, kLargestOpset);
  require_in(*info, "batch", options.batch, 0, 65536);
  if (!options.fold_batchnorm && !info->batchnorm) refuse(*info, "has no BatchNormalization to keep");
  NetworkWriter writer(*info, options);
  const Value logits = kEntries[static_cast<std::size_t>(info - kNetworks.data())].write(writer);
  return std::move(writer).finish(logits);
}

}  // namespace mobicuda::zoo
