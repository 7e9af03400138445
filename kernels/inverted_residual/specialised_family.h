// What a family whose kernels may have any valid Config tells the dispatcher, inverted_residual.cu.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/code_name.h"
#include "kernels/common/launch.h"
#include "kernels/common/specialised_variants.h"
#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda::kernels {

/// The functions take the values of a Config for which is_valid() holds.
struct InvertedResidualFamily {
  InvertedResidualVariant variant;  ///< that stands for the family in rules
  std::string_view name;            ///< the first part of its variants' names
  std::string_view header;          ///< of its kernels: CodeName::header
  bool wgmma;                       ///< CodeName::wgmma
  bool hard_swish;                  ///< whether it runs HardSwish, beside clips
  std::size_t count;                ///< of values
  bool (*is_valid)(const ConfigValues& values);
  bool (*supports)(const ConfigValues& values, const InvertedResidualParams& params, const DeviceTraits& gpu);
  std::size_t (*packed_bytes)(const ConfigValues& values);
  void (*pack)(const ConfigValues& values, const InvertedResidualWeights& weights, void* packed);
  std::string (*kernel_expression)(const ConfigValues& values);  ///< CodeName::expression
  /// `kernel`: a cudaKernel_t or function of that code.
  cudaError_t (*launch)(const ConfigValues& values, const void* kernel, const InvertedResidualParams& params,
                        const void* x, const void* packed, void* y, const Launch& where);
  /// Valid and supported ones, the one that is expected to be the fastest first.
  std::vector<ConfigValues> (*configurations)(const InvertedResidualParams& params, const DeviceTraits& gpu);
};

namespace inverted_host {

template <class Config>
inline constexpr std::size_t kValuesOf = sizeof(Config) / sizeof(int);

template <class Config>
Config config_of(const ConfigValues& values) {
  std::array<int, kValuesOf<Config>> own{};
  std::copy_n(values.begin(), own.size(), own.begin());
  return std::bit_cast<Config>(own);
}

template <class Config>
ConfigValues values_of(const Config& config) {
  const auto own = std::bit_cast<std::array<int, kValuesOf<Config>>>(config);
  ConfigValues values{};
  std::copy(own.begin(), own.end(), values.begin());
  return values;
}

/// "space::kernel<space::Shape<space::Config{1, 64, 384}>>".
template <class Config>
std::string expression(const std::string& space, const std::string& kernel, const Config& config) {
  const ConfigValues values = values_of(config);
  std::string text = space;
  text.append(kernel).append("<").append(space).append("Shape<").append(space).append("Config{");
  for (std::size_t i = 0; i < kValuesOf<Config>; ++i) text.append(i == 0 ? "" : ",").append(std::to_string(values[i]));
  return text.append("}>>");
}

/// A family of the functions that its host.h declares for Config: is_valid(), supports(), packed_bytes(), pack(),
/// kernel_expression() and launch(), found by their argument.
template <class Config, class Kernel>
constexpr InvertedResidualFamily family(InvertedResidualVariant variant, std::string_view name, std::string_view header,
                                        std::vector<ConfigValues> (*configurations)(const InvertedResidualParams&,
                                                                                    const DeviceTraits&),
                                        bool wgmma = false) {
  return {.variant = variant,
          .name = name,
          .header = header,
          .wgmma = wgmma,
          .hard_swish = requires(Config config){config.hard_swish;
}
, .count = kValuesOf<Config>,
  .is_valid = [](const ConfigValues& values) { return is_valid(config_of<Config>(values)); },
  .supports = [](const ConfigValues& values, const InvertedResidualParams& params,
                 const DeviceTraits& gpu) { return supports(config_of<Config>(values), params, gpu); },
  .packed_bytes = [](const ConfigValues& values) { return packed_bytes(config_of<Config>(values)); },
  .pack = [](const ConfigValues& values, const InvertedResidualWeights& weights,
             void* packed) { pack(config_of<Config>(values), weights, packed); },
  .kernel_expression = [](const ConfigValues& values) { return kernel_expression(config_of<Config>(values)); },
  .launch =
      [](const ConfigValues& values, const void* kernel, const InvertedResidualParams& params, const void* x,
         const void* packed, void* y, const Launch& where) {
        return launch(config_of<Config>(values), reinterpret_cast<Kernel>(const_cast<void*>(kernel)), params, x, packed,
                      y, where);
      },
  .configurations = configurations,
};  // namespace inverted_host
}  // namespace mobicuda::kernels

/// InvertedResidualFamily::configurations of a function that gives Configs.
template <auto kConfigurations>
std::vector<ConfigValues> configuration_values(const InvertedResidualParams& params, const DeviceTraits& gpu) {
  std::vector<ConfigValues> found;
  for (const auto& config : kConfigurations(params, gpu)) found.push_back(values_of(config));
  return found;
}

}  // namespace inverted_host
}  // namespace mobicuda::kernels
