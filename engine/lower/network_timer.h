#pragma once

#include <memory>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/graph.h>

#include "kernels/common/device_traits.h"
#include "lower/weight_pieces.h"
#include "runtime/cuda_engine.h"
#include "specialise/specialiser.h"
#include "timing/confirm_choices.h"

namespace mobicuda {

/// Times a network with different choices on the current device: max_batch images, as a CUDA graph, with programmatic
/// launch if the engine uses it. Keeps two engines with a session each until it is destroyed, which share their weights
/// where the choices allow it; and on the host what was packed for any of them.
class NetworkComparison {
 public:
  /// `input` is Engine::input(). The references must outlive the object.
  NetworkComparison(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                    const TensorDesc& input);

  /// As NetworkTimer. Throws Error(out_of_memory), and as Specialiser::provide() does.
  NetworkTimes operator()(const std::vector<SavedChoice>& chosen, const std::vector<SavedChoice>& rival);

 private:
  struct Network {
    std::vector<SavedChoice> choices;
    std::shared_ptr<const CudaEngine> engine;
    std::unique_ptr<Session> session;
  };

  Network make(const std::vector<SavedChoice>& choices);

  const Graph& graph_;
  EngineOptions options_;
  kernels::DeviceTraits gpu_;
  TensorDesc input_;
  WeightPieces weights_;
  Specialiser specialiser_;
  Network chosen_;
  Network rival_;
};

}  // namespace mobicuda
