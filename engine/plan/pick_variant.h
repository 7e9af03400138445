#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "kernels/common/device_traits.h"

namespace mobicuda {

/// The named variant where there is a name, else the first of `preferred` that runs the shape, else any that does.
/// Throws Error(unsupported).
template <class Variant, class Params>
Variant pick(const std::map<std::string, std::string>& by_name, const char* kernel, std::span<const Variant> variants,
             const Params& params, const kernels::DeviceTraits& gpu, const std::vector<Variant>& preferred) {
  if (const auto named = by_name.find(kernel); named != by_name.end()) {
    for (const Variant variant : variants) {
      if (name(variant) != named->second) continue;
      if (supports(variant, params, gpu)) return variant;
      throw Error(ErrorCode::unsupported, "kernel variant '" + named->second + "' of '" + kernel + "'",
                  "does not run this layer's shape", "leave the choice to the planner");
    }
  }
  for (const Variant variant : preferred) {
    if (supports(variant, params, gpu)) return variant;
  }
  for (const Variant variant : variants) {
    if (supports(variant, params, gpu)) return variant;
  }
  throw Error(ErrorCode::unsupported, kernel, "no variant runs this layer's shape on this GPU");
}

/// Whether pick() would find one.
template <class Variant, class Params>
bool any_runs(const std::map<std::string, std::string>& by_name, const char* kernel, std::span<const Variant> variants,
              const Params& params, const kernels::DeviceTraits& gpu) {
  const auto named = by_name.find(kernel);
  return std::any_of(variants.begin(), variants.end(), [&](Variant variant) {
    return (named == by_name.end() || named->second == name(variant)) && supports(variant, params, gpu);
  });
}

}  // namespace mobicuda
