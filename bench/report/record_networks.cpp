#include "report/record_networks.h"

#include <algorithm>
#include <array>

namespace mobicuda::bench::report {
namespace {

constexpr std::array<std::string_view, 16> kNetworks{
    "lenet",        "caffenet",         "network_in_network", "vgg16",
    "vgg19",        "squeezenet1_1",    "resnet34_cifar",     "resnet50",
    "resnet152",    "resnext101_64x4d", "densenet201",        "inception_bn",
    "inception_v3", "mobilenet_v1",     "mobilenet_v3_large", "efficientnet_b0"};

auto place_of(const std::string& network) { return std::find(kNetworks.begin(), kNetworks.end(), network); }

}  // namespace

std::span<const std::string_view> recorded_networks() { return kNetworks; }

void sort_networks(std::vector<NetworkTime>& times) {
  std::stable_sort(times.begin(), times.end(), [](const NetworkTime& a, const NetworkTime& b) {
    return place_of(a.network) < place_of(b.network);
  });
}

std::string lacking_text(const MachineRecord& record) {
  std::string names;
  for (const std::string& name : record.lacking) names += (names.empty() ? "" : ", ") + name;
  return "Networks of models/zoo that this record lacks: " + names + '.';
}

std::string network_title(const std::string& network) { return network == "mobilenet_v2" ? "MobileNetV2" : network; }

}  // namespace mobicuda::bench::report
