#include "cudnn/cublas_gemm.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cudnn/cudnn_check.h"

namespace mobicuda::cudnn {
namespace {

constexpr int kAlgorithmsAsked = 24;
constexpr std::int64_t kGemmWorkspaceBytes = std::int64_t{32} << 20U;  // what NVIDIA recommends for sm_90
constexpr std::uint32_t kPointerAlignment = 16;  // what callers promise for the network's input and output

cudaDataType_t data_type(DType dtype) { return dtype == DType::F16 ? CUDA_R_16F : CUDA_R_32F; }

// y (pixels, k) = x (pixels, c) * w (k, c)^T in row-major order. cuBLASLt is column-major, so that it sees
// y^T (k, pixels) = w (c, k)^T * x^T (c, pixels), and the bias runs along the rows, as its epilogue wants.
class Layouts {
 public:
  explicit Layouts(const ConvProblem& p) {
    const auto pixels = static_cast<std::uint64_t>(p.n * p.h * p.w);
    const auto c = static_cast<std::uint64_t>(p.c);
    const auto k = static_cast<std::uint64_t>(p.k);
    const cudaDataType_t in = data_type(p.element());
    const cudaDataType_t out = data_type(p.output_element());
    init(&w_, in, c, k, p.c);
    init(&x_, in, c, pixels, p.c);
    init(&y_, out, k, pixels, p.y_pitch == 0 ? p.k : p.y_pitch);
    init(&residual_, out, k, pixels, p.y_pitch == 0 || p.residual ? p.k : p.y_pitch);
  }
  cublasLtMatrixLayout_t w() const { return &w_; }
  cublasLtMatrixLayout_t x() const { return &x_; }
  cublasLtMatrixLayout_t y() const { return &y_; }
  /// Of what is added to the product: y itself, times zero, where there is no residual.
  cublasLtMatrixLayout_t residual() const { return &residual_; }

 private:
  static void init(cublasLtMatrixLayout_t layout, cudaDataType_t type, std::uint64_t rows, std::uint64_t columns,
                   std::int64_t pitch) {
    check(cublasLtMatrixLayoutInit(layout, type, rows, columns, pitch), "describing a matrix");
  }

  // cuBLASLt reads them through pointers to non-const.
  mutable cublasLtMatrixLayoutOpaque_t w_{};
  mutable cublasLtMatrixLayoutOpaque_t x_{};
  mutable cublasLtMatrixLayoutOpaque_t y_{};
  mutable cublasLtMatrixLayoutOpaque_t residual_{};
};

template <class T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const T& value) {
  check(cublasLtMatmulDescSetAttribute(desc, name, &value, sizeof(value)), "describing a matrix product");
}

cublasLtEpilogue_t epilogue_of(const ConvProblem& p) {
  if (p.activation == Activation::relu()) return p.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

class GemmKernel final : public ConvKernel {
 public:
  GemmKernel(const ConvProblem& problem, const Layouts& layouts, const cublasLtMatmulDescOpaque_t& desc,
             const cublasLtMatmulHeuristicResult_t& result, std::string name)
      : layouts_(layouts), desc_(desc), algorithm_(result.algo), bias_(problem.bias) {
    const bool activation = problem.activation.is_none() || problem.activation == Activation::relu();
    describe(std::move(name), static_cast<std::int64_t>(result.workspaceSize), Fused{true, true, activation});
  }

 private:
  cudaError_t do_enqueue(const Handles& handles, const ConvArguments& a) const override {
    constexpr float kOne = 1.0F;
    constexpr float kZero = 0.0F;
    cublasLtMatmulDescOpaque_t desc = desc_;
    if (bias_) {
      const cublasStatus_t status =
          cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a.bias, sizeof(a.bias));
      if (status != CUBLAS_STATUS_SUCCESS) return to_cuda(status);
    }
    const bool residual = a.residual != nullptr;
    return to_cuda(cublasLtMatmul(handles.cublas_lt(), &desc, &kOne, a.w, layouts_.w(), a.x, layouts_.x(),
                                  residual ? &kOne : &kZero, residual ? a.residual : a.y, layouts_.residual(), a.y,
                                  layouts_.y(), &algorithm_, a.workspace, static_cast<std::size_t>(workspace_bytes()),
                                  handles.stream()));
  }

  Layouts layouts_;
  cublasLtMatmulDescOpaque_t desc_;
  cublasLtMatmulAlgo_t algorithm_;
  bool bias_;
};

cublasLtMatmulDescOpaque_t make_desc(const ConvProblem& p) {
  cublasLtMatmulDescOpaque_t desc{};
  const cublasComputeType_t compute =
      p.precision == Precision::Tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescInit(&desc, compute, CUDA_R_32F), "describing a matrix product");
  set(&desc, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(&desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
  return desc;
}

template <class T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t name, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, name, &value, sizeof(value)), "describing a matrix product");
}

std::vector<cublasLtMatmulHeuristicResult_t> propose(const Handles& handles, const ConvProblem& problem,
                                                     const Layouts& layouts, cublasLtMatmulDescOpaque_t desc) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference), "describing a matrix product");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kGemmWorkspaceBytes));
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, name, kPointerAlignment);
  }
  if (problem.precision == Precision::Fp16) {
    // Partial sums of split-K in half would not be accumulation in float.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(kAlgorithmsAsked);
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handles.cublas_lt(), &desc, layouts.w(), layouts.x(), layouts.residual(),
                                     layouts.y(), &preference, kAlgorithmsAsked, results.data(), &found);
  results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(found) : 0);
  return results;
}

std::string name_of(const cublasLtMatmulHeuristicResult_t& result, std::size_t rank) {
  int id = 0;
  std::size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&result.algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof(id), &written);
  return "cublaslt/" + (status == CUBLAS_STATUS_SUCCESS ? "algo" + std::to_string(id) + "_" : std::string()) +
         "choice" + std::to_string(rank);
}

}  // namespace

void cublas_gemm_kernels(const Handles& handles, const ConvProblem& problem, const KernelSink& sink) {
  const bool one_pixel = problem.h == 1 && problem.w == 1;
  if (!problem.is_pointwise() || (problem.layout != Layout::NHWC && !one_pixel)) return;
  const Layouts layouts(problem);
  const cublasLtMatmulDescOpaque_t desc = make_desc(problem);
  const auto results = propose(handles, problem, layouts, desc);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank].state != CUBLAS_STATUS_SUCCESS) continue;
    if (!sink(std::make_shared<GemmKernel>(problem, layouts, desc, results[rank], name_of(results[rank], rank))))
      return;
  }
}

}  // namespace mobicuda::cudnn
