// What the test cases tagged [race] share. They run every variant once or twice, on shapes that are as small as its
// rings, borders and shared sums allow: for compute-sanitizer's racecheck and initcheck, under which a launch takes up
// to half a second.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/pointwise_pool/pointwise_pool.h"
#include "support/catch.h"
#include "support/device_tensor.h"

namespace mobicuda::test::race_case {

/// Whether no variant is left out on this GPU: it is an sm_90, and the library was built for it.
inline bool all_variants_run() { return gpu_traits().wgmma_code; }

/// The variants whose names begin with one of `prefixes`, or with none of them.
template <class Variant>
std::vector<Variant> named(std::span<const Variant> variants, bool with,
                           std::initializer_list<std::string_view> prefixes) {
  std::vector<Variant> found;
  for (const Variant variant : variants) {
    const bool has = std::any_of(prefixes.begin(), prefixes.end(),
                                 [&](std::string_view prefix) { return name(variant).starts_with(prefix); });
    if (has == with) found.push_back(variant);
  }
  return found;
}

/// Gives each of some variants the first shape that it supports, and knows which have run.
template <class Variant>
class EachOnce {
 public:
  explicit EachOnce(std::vector<Variant> variants) : variants_(std::move(variants)) {}
  explicit EachOnce(std::span<const Variant> variants) : variants_(variants.begin(), variants.end()) {}

  const std::vector<Variant>& variants() const { return variants_; }

  /// Calls body(shape, its variants) for each shape that has some; each variant has one shape at most.
  template <class Params, class Body>
  void run(const std::vector<Params>& shapes, const Body& body) {
    std::set<Variant> taken;
    for (const Params& shape : shapes) {
      std::vector<Variant> its;
      for (const Variant variant : variants_) {
        if (!taken.contains(variant) && supports(variant, shape, gpu_traits())) its.push_back(variant);
      }
      if (its.empty()) continue;
      body(shape, std::span<const Variant>(its));
      taken.insert(its.begin(), its.end());
    }
    ran_.insert(taken.begin(), taken.end());
  }

  /// The same for one of the variants with shapes of its own.
  template <class Params, class Body>
  void run_one(Variant variant, const std::vector<Params>& shapes, const Body& body) {
    const auto fits = [&](const Params& shape) { return supports(variant, shape, gpu_traits()); };
    const auto shape = std::find_if(shapes.begin(), shapes.end(), fits);
    if (shape == shapes.end()) return;
    body(*shape, std::span<const Variant>(&variant, 1));
    ran_.insert(variant);
  }

  /// To be called in the end: no variant was forgotten.
  void check_all_ran() const {
    CHECK_FALSE(variants_.empty());
    if (!all_variants_run()) return;
    for (const Variant variant : variants_) {
      CAPTURE(name(variant));
      CHECK(ran_.contains(variant));  // else it needs a shape here
    }
  }

 private:
  std::vector<Variant> variants_;
  std::set<Variant> ran_;
};

}  // namespace mobicuda::test::race_case
