#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

/// Problems that compute the same layer: one of them will be used.
using ConvAlternatives = std::vector<ConvProblem>;

/// Work that reads x and writes y on the handles' stream, and its name.
using TensorWork = std::function<cudaError_t(const Handles& handles, const void* x, void* y)>;
struct Way {
  const char* name;
  TensorWork work;
};

/// Elementwise shapes of a problem's input and output.
TensorShape input_shape(const ConvProblem& problem);
TensorShape output_shape(const ConvProblem& problem);

/// Enqueues what `choice` leaves after its kernel: y = act(y + bias + residual), as far as needed.
cudaError_t enqueue_epilogue(const ConvChoice& choice, const void* bias, const void* residual, void* y,
                             cudaStream_t stream);

/// Times the candidates for each distinct layer and remembers the result, for equal layers. One search serves
/// one compile(); not thread-safe.
class ConvSearch {
 public:
  /// Trials run on the handles' stream, on the current device, whose index is `device`.
  ConvSearch(std::shared_ptr<const Handles> handles, int device, LogCallback log);

  /// Searches all layers of a network, equal ones given as often as they occur: builds kernels for all of
  /// them in parallel, times these, and goes on with the layers where the network can still gain.
  void prepare(std::span<const ConvAlternatives> layers);
  /// Null when nothing runs the problem. The pointer stays valid until the next prepare().
  const ConvChoice* find(const ConvProblem& problem);
  /// The fastest of find() for each; null when nothing runs any.
  const ConvChoice* best_of(std::span<const ConvProblem> alternatives);
  /// Those that trials run with.
  const Handles& handles() const noexcept { return *handles_; }
  /// The index of the fastest of several ways to do the same.
  std::size_t fastest(std::span<const Way> ways, std::int64_t x_bytes, std::int64_t y_bytes);
  /// False when a network with these layers, already searched, is so much slower in `layout` where it takes
  /// most of its time that compiling it in that layout is of no use.
  bool may_be_faster_in(Layout layout, std::span<const ConvAlternatives> layers);

 private:
  class Trial;
  struct Known {
    ConvProblem problem;
    std::vector<ConvChoice> ranked;  ///< the fastest few, best first
    int tried = 0;
    bool reported = false;
  };
  struct Cost {
    ConvProblem problem;
    int times = 0;
    double milliseconds = 0.0;  ///< of all of them together
  };

  Known& know(const ConvProblem& problem);
  void try_candidates(Known& known, bool only_graph);
  void rank(Known& known) const;
  bool passes_probe(const ConvChoice& choice);
  double retime(const ConvChoice& choice) const;
  cudaError_t enqueue(const ConvChoice& choice) const;
  cudaError_t enqueue_kernel(const ConvChoice& choice) const;
  std::vector<Cost> costs(std::span<const ConvAlternatives> layers);
  std::vector<ConvProblem> worth_more(std::span<const ConvAlternatives> layers);
  void report(Known& known) const;
  void log(const std::string& text) const;

  // For one round of one layer's trials; prepare() takes less where a network has very many different layers.
  static constexpr std::chrono::milliseconds kTrialBudget{1000};
  std::chrono::milliseconds trial_budget_ = kTrialBudget;
  std::shared_ptr<const Handles> handles_;
  GraphCandidates graph_candidates_;
  LogCallback log_;
  Stopwatch stopwatch_;
  std::vector<std::unique_ptr<Known>> known_;
  DeviceBuffer x_, padded_, w_, bias_, residual_, y_, workspace_;  // grown on demand, for trials only
};

/// "8x32x112x112 -> 16, 1x1 stride 1, groups 1", for logs and messages.
std::string describe(const ConvProblem& problem);

}  // namespace mobicuda::cudnn
