// Which of cuDNN's kernels the search tries.
#include <memory>
#include <string>
#include <vector>

#include "cudnn/cudnn_graph.h"
#include "support/catch.h"

namespace mobicuda::cudnn {
namespace {

/// Whether a configuration says of itself that it does not split sums over blocks.
bool says_unsplit(const std::string& name) {
  const std::string knob = "_k" + std::to_string(CUDNN_KNOB_TYPE_SPLIT_K_SLC) + "=";
  const std::size_t at = name.find(knob);
  return at != std::string::npos && std::stoi(name.substr(at + knob.size())) <= 1;
}

TEST_CASE("cudnn: kernels that may never end are not tried") {
  ConvProblem layer;  // of Inception v3, for which the heuristics propose one
  layer.precision = Precision::Fp16;
  layer.n = 32;
  layer.c = 32;
  layer.h = layer.w = 147;
  layer.k = 64;
  layer.kh = layer.kw = 3;
  layer.pads = {1, 1, 1, 1};
  layer.bias = true;
  layer.activation = Activation::relu();
  std::vector<GraphForm> forms = graph_forms(layer);
  forms.push_back(GraphForm::Bare);
  const auto handles = std::make_shared<const Handles>(nullptr);
  int proposed = 0;
  for (const GraphForm form : forms) {
    const ConvGraph graph(handles, layer, form);
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
      for (const EngineConfig& config : graph.propose(mode)) {
        ++proposed;
        CAPTURE(config.name);
        CHECK((config.engine != 23 || says_unsplit(config.name)));
      }
    }
  }
  CHECK(proposed > 0);
}

}  // namespace
}  // namespace mobicuda::cudnn
