#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/layers/compare_layers.h"

namespace mobicuda::test {

/// A session with its input in place, to be compared layer by layer.
struct Walker {
  Walker(const Backend& backend, const Graph& graph, const EngineOptions& options, const std::vector<float>& input)
      : engine(backend.compile(graph, options)), session(engine->create_session()) {
    session->set_input(input);
  }

  bench::LayerSource source() const { return {std::string(engine->backend()), engine.get(), session.get()}; }

  std::shared_ptr<const Engine> engine;
  std::unique_ptr<Session> session;
};

inline bench::LayerComparison compare_layers(const Walker& walker, const Walker& reference, std::int64_t n,
                                             double threshold) {
  return bench::compare_layers(walker.source(), reference.source(), n, threshold, [] { return false; }).value();
}

}  // namespace mobicuda::test
