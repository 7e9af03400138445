#include "cudnn/legacy_conv.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cudnn/library_descriptors.h"

namespace mobicuda::cudnn {
namespace {

struct Algorithm {
  cudnnConvolutionFwdAlgo_t value;
  const char* name;
};

// Without FFT and Winograd: their error is not bounded by the sum of the products.
constexpr std::array<Algorithm, 4> kAlgorithms{{{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, "precomp_gemm"},
                                                {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, "implicit_gemm"},
                                                {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, "gemm"},
                                                {CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, "direct"}}};

struct MathType {
  cudnnMathType_t value;
  const char* name;
};

std::vector<MathType> math_types(Precision precision) {
  switch (precision) {
    case Precision::Fp16:
      return {{CUDNN_TENSOR_OP_MATH, "tensor_op"}, {CUDNN_FMA_MATH, "fma"}};
    case Precision::Tf32:
      return {{CUDNN_DEFAULT_MATH, "default"}, {CUDNN_FMA_MATH, "fma"}};
    default:
      return {{CUDNN_FMA_MATH, "fma"}};
  }
}

struct LegacyDescriptors {
  Owned<cudnnTensorDescriptor_t> x, y, bias;
  Owned<cudnnFilterDescriptor_t> w;
  Owned<cudnnConvolutionDescriptor_t> convolution;
  Owned<cudnnActivationDescriptor_t> activation;
};

int to_int(std::int64_t value) { return static_cast<int>(value); }

LegacyDescriptors describe_problem(const ConvProblem& p, cudnnMathType_t math) {
  const bool of_double = p.element() == DType::F64;
  const cudnnDataType_t sums = of_double ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const cudnnDataType_t type = p.element() == DType::F16 ? CUDNN_DATA_HALF : sums;
  const cudnnTensorFormat_t format = p.layout == Layout::NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  LegacyDescriptors d;
  d.x = make_tensor_descriptor();
  d.y = make_tensor_descriptor();
  d.bias = make_tensor_descriptor();
  d.w = make_filter_descriptor();
  d.convolution = make_convolution_descriptor();
  d.activation = make_activation_descriptor();
  constexpr std::string_view kDoing = "describing a convolution";
  check(cudnnSetTensor4dDescriptor(d.x.get(), format, type, to_int(p.n), to_int(p.c), to_int(p.h), to_int(p.w)),
        kDoing);
  check(p.y_pitch == 0 ? cudnnSetTensor4dDescriptor(d.y.get(), format, type, to_int(p.n), to_int(p.k),
                                                    to_int(p.out_h()), to_int(p.out_w()))
                       : cudnnSetTensor4dDescriptorEx(d.y.get(), type, to_int(p.n), to_int(p.k), to_int(p.out_h()),
                                                      to_int(p.out_w()), to_int(p.out_h() * p.out_w() * p.y_pitch), 1,
                                                      to_int(p.out_w() * p.y_pitch), to_int(p.y_pitch)),
        kDoing);
  check(cudnnSetTensor4dDescriptor(d.bias.get(), format, type, 1, to_int(p.k), 1, 1), kDoing);
  check(cudnnSetFilter4dDescriptor(d.w.get(), type, format, to_int(p.k), to_int(p.c / p.groups), to_int(p.kh),
                                   to_int(p.kw)),
        kDoing);
  check(cudnnSetConvolution2dDescriptor(d.convolution.get(), to_int(p.pads.top), to_int(p.pads.left),
                                        to_int(p.strides[0]), to_int(p.strides[1]), to_int(p.dilations[0]),
                                        to_int(p.dilations[1]), CUDNN_CROSS_CORRELATION, sums),
        kDoing);
  check(cudnnSetConvolutionGroupCount(d.convolution.get(), to_int(p.groups)), kDoing);
  check(cudnnSetConvolutionMathType(d.convolution.get(), math), kDoing);
  const bool relu = !p.activation.is_none();
  check(cudnnSetActivationDescriptor(d.activation.get(), relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                                     CUDNN_PROPAGATE_NAN, 0.0),
        kDoing);
  return d;
}

class LegacyKernel final : public ConvKernel {
 public:
  LegacyKernel(LegacyDescriptors descriptors, cudnnConvolutionFwdAlgo_t algorithm, std::string name,
               std::int64_t workspace_bytes, Fused fused, bool of_double)
      : d_(std::move(descriptors)), algorithm_(algorithm), by_(factors_of(of_double)) {
    describe(std::move(name), workspace_bytes, fused);
  }

 private:
  cudaError_t enqueue(const Handles& handles, const ConvArguments& a) const override {
    const auto scratch = static_cast<std::size_t>(workspace_bytes());
    if (!fused().activation) {
      return to_cuda(cudnnConvolutionForward(handles.cudnn(), by_.one, d_.x.get(), a.x, d_.w.get(), a.w,
                                             d_.convolution.get(), algorithm_, a.workspace, scratch, by_.zero,
                                             d_.y.get(), a.y));
    }
    const bool residual = a.residual != nullptr;
    return to_cuda(cudnnConvolutionBiasActivationForward(
        handles.cudnn(), by_.one, d_.x.get(), a.x, d_.w.get(), a.w, d_.convolution.get(), algorithm_, a.workspace,
        scratch, residual ? by_.one : by_.zero, d_.y.get(), residual ? a.residual : a.y, d_.bias.get(), a.bias,
        d_.activation.get(), d_.y.get(), a.y));
  }

  LegacyDescriptors d_;
  cudnnConvolutionFwdAlgo_t algorithm_;
  Factors by_;
};

// True when the fused call computes the layer with that algorithm: it knows ReLU, and the identity only
// with precomputed indices.
bool fuses(const ConvProblem& p, cudnnConvolutionFwdAlgo_t algorithm) {
  if (!p.bias || (p.residual && p.y_pitch != 0)) return false;  // one descriptor serves y and the residual
  if (p.activation.is_none()) return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  return p.activation == Activation::relu();
}

std::shared_ptr<const ConvKernel> make_kernel(const Handles& handles, const ConvProblem& problem,
                                              const Algorithm& algorithm, const MathType& math, bool fused) {
  LegacyDescriptors d = describe_problem(problem, math.value);
  std::size_t scratch = 0;
  const cudnnStatus_t status = cudnnGetConvolutionForwardWorkspaceSize(
      handles.cudnn(), d.x.get(), d.w.get(), d.convolution.get(), d.y.get(), algorithm.value, &scratch);
  if (status != CUDNN_STATUS_SUCCESS || static_cast<std::int64_t>(scratch) > kMaxWorkspaceBytes) return nullptr;
  std::string name = std::string(fused ? "cudnn_conv_bias_act/" : "cudnn_conv/") + algorithm.name + "_" + math.name;
  return std::make_shared<LegacyKernel>(std::move(d), algorithm.value, std::move(name),
                                        static_cast<std::int64_t>(scratch), Fused{fused, fused, fused},
                                        problem.element() == DType::F64);
}

}  // namespace

void legacy_conv_kernels(const Handles& handles, const ConvProblem& problem, const KernelSink& sink) {
  if (!problem.symmetric_pads() || problem.output_element() != problem.element()) return;
  for (const Algorithm& algorithm : kAlgorithms) {
    for (const MathType& math : math_types(problem.precision)) {
      for (const bool fused : {true, false}) {
        if (fused && !fuses(problem, algorithm.value)) continue;
        auto kernel = make_kernel(handles, problem, algorithm, math, fused);
        if (kernel != nullptr && !sink(std::move(kernel))) return;
      }
    }
  }
}

}  // namespace mobicuda::cudnn
