#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cudnn/conv_problem.h"

namespace mobicuda::cudnn {

/// The kernels of cuDNN's graph API for many problems. Building them takes most of a compilation, since the
/// fused ones are generated and compiled at run time: it is done for all problems at once, on all cores.
class GraphCandidates {
 public:
  using Kernels = std::vector<std::shared_ptr<const ConvKernel>>;

  explicit GraphCandidates(int device) : device_(device) {}

  /// Builds what is missing for `problems`.
  void build(std::span<const ConvProblem> problems);
  /// The kernels of a problem, most promising first; builds them when that has not happened.
  const Kernels& of(const ConvProblem& problem);

 private:
  struct Job;

  bool has(const ConvProblem& problem) const;
  void run(std::vector<Job>& jobs) const;

  int device_;
  std::vector<std::pair<ConvProblem, std::unique_ptr<Kernels>>> built_;
};

}  // namespace mobicuda::cudnn
