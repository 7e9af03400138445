#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobicuda/engine.h>

#include "cudnn/conv_problem.h"
#include "cudnn/elementwise.h"
#include "cudnn/graph_candidates.h"
#include "cudnn/stopwatch.h"
#include "runtime/device_buffer.h"

namespace mobicuda::cudnn {

/// The fastest way found to compute a layer: pad, kernel, and an elementwise step for what the kernel left.
struct ConvChoice {
  Padding explicit_pad;  ///< added by a step of its own before the kernel; none where the kernel pads
  ConvProblem problem;   ///< what the kernel computes, after the explicit pad
  std::shared_ptr<const ConvKernel> kernel;
  double milliseconds = Stopwatch::kRefused;  ///< of all steps together

  bool pads_first() const { return explicit_pad.any(); }
  bool needs_bias() const { return problem.bias && !kernel->fused().bias; }
  bool needs_residual() const { return problem.residual && !kernel->fused().residual; }
  bool needs_activation() const { return !problem.activation.is_none() && !kernel->fused().activation; }
  bool needs_epilogue() const { return needs_bias() || needs_residual() || needs_activation(); }
};

/// Elementwise shapes of a problem's input and output.
TensorShape input_shape(const ConvProblem& problem);
TensorShape output_shape(const ConvProblem& problem);

/// Enqueues what `choice` leaves after its kernel: y = act(y + bias + residual), as far as needed.
cudaError_t enqueue_epilogue(const ConvChoice& choice, const void* bias, const void* residual, void* y,
                             cudaStream_t stream);

/// Times every candidate for a layer once and remembers the result, for equal layers. One search serves one
/// compile(); not thread-safe.
class ConvSearch {
 public:
  /// Trials run on the handles' stream, on the current device, whose index is `device`.
  ConvSearch(std::shared_ptr<const Handles> handles, int device, LogCallback log);

  /// Announces what find() will be asked for, so that kernels can be built for all of it in parallel.
  void prepare(std::span<const ConvProblem> problems);
  /// Null when nothing runs the problem. The pointer stays valid as long as the search.
  const ConvChoice* find(const ConvProblem& problem);

 private:
  class Trial;

  ConvChoice search(const ConvProblem& problem);
  void report(const ConvProblem& problem, const ConvChoice& choice, int tried) const;

  std::shared_ptr<const Handles> handles_;
  GraphCandidates graph_candidates_;
  LogCallback log_;
  Stopwatch stopwatch_;
  std::vector<std::pair<ConvProblem, std::unique_ptr<ConvChoice>>> known_;
  DeviceBuffer x_, padded_, w_, bias_, residual_, y_, workspace_;  // grown on demand, for trials only
  int tried_ = 0;
};

/// "8x32x112x112 -> 16, 1x1 stride 1, groups 1", for logs and messages.
std::string describe(const ConvProblem& problem);

}  // namespace mobicuda::cudnn
