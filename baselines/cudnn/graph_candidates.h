#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cudnn/conv_problem.h"

namespace mobicuda::cudnn {

/// The kernels of cuDNN's graph API for many problems. Building them takes most of a compilation, since the
/// fused ones are generated and compiled at run time: it is done for all problems at once, on all cores, and
/// in two rounds: a few compiled kernels for every problem, then more where they can pay off.
class GraphCandidates {
 public:
  using Kernels = std::vector<std::shared_ptr<const ConvKernel>>;

  explicit GraphCandidates(int device) : device_(device) {}

  /// First round: builds what is missing for `problems`.
  void build(std::span<const ConvProblem> problems);
  /// Second round: more of the kernels that are compiled at run time. of() returns these alone from now on.
  void extend(std::span<const ConvProblem> problems);
  /// The kernels of a problem's latest round, most promising first; builds them when that has not happened.
  const Kernels& of(const ConvProblem& problem);

  int built() const noexcept { return kernels_built_; }

 private:
  struct Job;
  struct Entry {
    ConvProblem problem;
    std::vector<std::string> names;  ///< of all rounds
    Kernels kernels;                 ///< of the latest
  };

  Entry* find(const ConvProblem& problem);
  void run(std::vector<Job>& jobs);

  int device_;
  int kernels_built_ = 0;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace mobicuda::cudnn
