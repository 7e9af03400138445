#include "bench_engine/layers/layer_comparison.h"

#include "text/numbers.h"

namespace mobicuda::bench {
namespace {

constexpr double kUnitF16 = 0x1p-11;  // TF32 has as many bits
constexpr double kUnitF32 = 0x1p-24;
// Rounding of all layers before, amplified.
constexpr double kNetworkUnits = 128;
// A float sum of K products errs by about sqrt(K / 3) units; of K = 192.
constexpr double kSumUnits = 8;

bool coarse(Precision precision) { return precision == Precision::Fp16 || precision == Precision::Tf32; }

}  // namespace

double default_layer_threshold(Precision precision, Precision reference) {
  if (coarse(precision) || coarse(reference)) return kNetworkUnits * kUnitF16;
  if (precision == Precision::Fp64 && reference == Precision::Fp64) return 2 * kUnitF32;
  return kNetworkUnits * kSumUnits * kUnitF32;
}

std::string missed_layers(const LayerComparison& comparison, const std::string& who) {
  const ComparedLayer* first = comparison.first_diverging();
  if (first == nullptr) return {};
  std::string text = who + ": layer '" + first->layer + "' (" + first->kernel + ") is the first that differs from " +
                     comparison.reference + ": the relative L2 of tensor '" + first->tensor + "' is " +
                     scientific(first->difference.relative_l2) + ", allowed are " + scientific(comparison.threshold);
  const std::size_t others = comparison.diverging() - 1;
  if (others > 0) text += "; " + std::to_string(others) + " later ones differ as well";
  return text;
}

}  // namespace mobicuda::bench
