#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/layers/compare_layers.h"
#include "bench_engine/model/cases.h"
#include "bench_engine/model/options.h"

namespace mobicuda::bench {

/// What --compare names: which implementation each case is compared with, layer by layer.
class LayerReferences {
 public:
  LayerReferences() = default;
  /// Throws UsageError on a name or precision that does not exist, or when nothing but a case itself is named, and
  /// Error(device_unavailable) when what is named cannot run here.
  LayerReferences(const Options& options, const std::vector<Implementation>& implementations,
                  const std::vector<Case>& cases);

  bool empty() const { return references_.empty(); }

  /// A case that runs, and where its comparisons go.
  struct Subject {
    const Case* what = nullptr;
    const Engine* engine = nullptr;
    Session* session = nullptr;
    std::vector<LayerComparison>* results = nullptr;
  };
  struct Hooks {
    std::function<std::shared_ptr<const Engine>(const Case&)> compile;
    std::function<void(Session&)> set_input;
    std::function<bool()> stop;
  };

  /// One reference after the other, so that two networks are in memory beside those that are there already.
  void compare(const std::vector<Subject>& subjects, std::int64_t n, const Hooks& hooks) const;

 private:
  struct Reference {
    Case what;
    std::vector<std::string> subjects;  ///< labels of the cases that are compared with it
  };

  void add(const Case& reference, const Case& subject);
  void compare_with(const Reference& reference, const std::vector<Subject>& subjects, std::int64_t n,
                    const Hooks& hooks) const;

  std::vector<Reference> references_;
  std::optional<double> threshold_;  ///< absent: that of the precisions
};

}  // namespace mobicuda::bench
