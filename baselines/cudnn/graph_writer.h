#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "cudnn/conv_problem.h"
#include "cudnn/cudnn_graph.h"

namespace mobicuda::cudnn {

/// Identities of the tensors in the operation graph.
enum TensorId : std::int64_t { kX = 1, kW, kY, kBias, kResidual, kFirstScalar = 50, kFirstVirtual = 100 };

/// Makes the tensors and the operations conv -> + bias -> + residual -> activation, as far as wanted.
class GraphWriter {
 public:
  /// Throws Error(unsupported) when cuDNN does not take an operation.
  GraphWriter(const ConvProblem& problem, GraphForm form);

  /// Everything made, in the order of making.
  std::vector<Descriptor> take_parts() { return std::move(parts_); }
  /// Which of the parts are operations.
  const std::vector<std::size_t>& operations() const { return operations_; }
  const Scalars& scalars() const { return scalars_; }

 private:
  int operations_of_activation() const;
  void add_activation(std::size_t x);
  std::size_t keep(Descriptor descriptor);
  std::size_t add_scalar(float value);
  std::size_t add_result();
  std::size_t add_convolution();
  std::size_t add_binary(cudnnPointwiseMode_t mode, std::size_t left, std::size_t right);
  std::size_t add_pointwise(Descriptor mode, std::size_t input, const std::size_t* second);

  const ConvProblem& problem_;
  GraphForm form_;
  std::array<std::int64_t, 4> dims_{};
  int operations_left_ = 0;
  std::int64_t next_virtual_ = kFirstVirtual;
  Scalars scalars_;
  std::vector<Descriptor> parts_;
  std::vector<std::size_t> operations_;
};

}  // namespace mobicuda::cudnn
