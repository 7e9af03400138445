#include "cudnn_problems.h"

namespace mobicuda::bench {
namespace {

using cudnn::ConvAlternatives;
using cudnn::ConvProblem;

Activation activation_for_cudnn(LayerActivation activation) {
  const kernels::Activation own = activation_of(activation);
  if (own.kind == kernels::ActivationKind::Clip) return {own.lo, own.hi};
  switch (activation) {
    case LayerActivation::Sigmoid:
      return Activation::of(ActivationKind::Sigmoid);
    case LayerActivation::Silu:
      return Activation::of(ActivationKind::Silu);
    case LayerActivation::HardSwish:
      return Activation::of(ActivationKind::HardSwish);
    case LayerActivation::Tanh:
      return Activation::of(ActivationKind::Tanh);
    case LayerActivation::LeakyRelu:
      return Activation::of(ActivationKind::LeakyRelu, own.alpha);
    default:
      return Activation::of(ActivationKind::Elu, own.alpha);
  }
}

ConvProblem problem_of(const LayerCase& at, Layout layout) {
  const LayerShape& s = at.layer.shape;
  ConvProblem p;
  p.precision = at.elem == kernels::Elem::F16 ? Precision::Fp16 : Precision::Fp32;
  p.layout = layout;
  p.n = at.batch;
  p.c = s.c_in;
  p.h = s.h;
  p.w = s.w;
  p.k = s.c_out;
  p.kh = s.vertical.size;
  p.kw = s.horizontal.size;
  p.strides = {s.vertical.stride, s.horizontal.stride};
  p.dilations = {s.vertical.dilation, s.horizontal.dilation};
  p.pads = {s.vertical.pad_before, s.horizontal.pad_before, s.vertical.pad_after, s.horizontal.pad_after};
  p.groups = s.groups;
  p.bias = s.bias;
  p.residual = s.residual;
  p.activation = activation_for_cudnn(s.activation);
  return p;
}

/// The network's input is rewritten for cuDNN anyway, and may get more channels then.
ConvAlternatives first_layer(ConvProblem problem) {
  ConvAlternatives ways{problem};
  if (problem.layout == Layout::NCHW || problem.groups != 1) return ways;
  for (const std::int64_t channels : {4, 8}) {
    if (channels <= problem.c) continue;
    problem.c = channels;
    ways.push_back(problem);
  }
  return ways;
}

ConvProblem pointwise(ConvProblem problem, std::int64_t c, std::int64_t k, const Activation& activation) {
  problem.c = c;
  problem.k = k;
  problem.kh = problem.kw = 1;
  problem.strides = {1, 1};
  problem.pads = {};
  problem.groups = 1;
  problem.bias = true;
  problem.residual = false;
  problem.activation = activation;
  return problem;
}

/// Of a block, or of the network's first convolution and a block.
LayerChain block_chain(const LayerCase& at, Layout layout) {
  const LayerShape& s = at.layer.shape;
  const ConvProblem whole = problem_of(at, layout);
  LayerChain chain;
  if (s.first) {
    ConvProblem stem = whole;
    stem.k = s.hidden;
    stem.bias = true;
    stem.activation = Activation::relu6();
    chain.push_back(first_layer(stem));
  } else if (s.expand) {
    chain.push_back({pointwise(whole, s.c_in, s.hidden, Activation::relu6())});
  }
  ConvProblem depthwise = whole;
  if (s.first) {
    depthwise.h = s.out_h;
    depthwise.w = s.out_w;
    depthwise.strides = {1, 1};
    depthwise.pads = {1, 1, 1, 1};
  }
  depthwise.c = depthwise.k = depthwise.groups = s.hidden;
  depthwise.bias = true;
  depthwise.residual = false;
  depthwise.activation = Activation::relu6();
  chain.push_back({depthwise});
  ConvProblem project = pointwise(whole, s.hidden, s.c_out, whole.activation);
  project.h = s.out_h;
  project.w = s.out_w;
  project.residual = s.residual;
  chain.push_back({project});
  return chain;
}

LayerChain chain_of(const LayerCase& at, Layout layout) {
  const LayerShape& s = at.layer.shape;
  if (s.hidden != 0) return block_chain(at, layout);
  ConvProblem problem = problem_of(at, layout);
  if (s.first) return {first_layer(problem)};
  problem.float_output = s.last && at.elem == kernels::Elem::F16 && !s.residual;
  return {{problem}};
}

}  // namespace

std::vector<LayerChain> chains_of(const LayerCase& at) {
  std::vector<LayerChain> chains{chain_of(at, Layout::NHWC)};
  // In half the tensor cores' kernels are NHWC; a matrix product of one pixel a picture is the same in both.
  const LayerShape& s = at.layer.shape;
  if (at.elem == kernels::Elem::F32 && s.h * s.w > 1) chains.push_back(chain_of(at, Layout::NCHW));
  return chains;
}

std::vector<LayerChain> expand_depthwise_chains(const LayerCase& at) {
  std::vector<LayerChain> chains = chains_of(at);
  for (LayerChain& chain : chains) chain.pop_back();
  return chains;
}

}  // namespace mobicuda::bench
