#include "cudnn/cublas_gemm.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cudnn/cudnn_check.h"
#include "cudnn/library_descriptors.h"

namespace mobicuda::cudnn {
namespace {

constexpr int kAlgorithmsAsked = 24;
constexpr std::int64_t kGemmWorkspaceBytes = std::int64_t{32} << 20U;  // what NVIDIA recommends for sm_90
constexpr std::uint32_t kPointerAlignment = 16;  // what callers promise for the network's input and output
constexpr std::uint32_t kPlanarAlignment = 8;    // of each image of doubles

cudaDataType_t cublas_type(DType dtype) {
  if (dtype == DType::F64) return CUDA_R_64F;
  return dtype == DType::F16 ? CUDA_R_16F : CUDA_R_32F;
}

// Images of planes: as many products as there are images.
bool is_planar(const ConvProblem& p) { return p.layout == Layout::NCHW && p.h * p.w > 1; }

// y (pixels, k) = x (pixels, c) * w (k, c)^T in row-major order. cuBLASLt is column-major, so that it sees
// y^T (k, pixels) = w (c, k)^T * x^T (c, pixels), and the bias runs along the rows, as its epilogue wants. Of planes,
// y^T (pixels, k) = x^T (pixels, c) * w (c, k), image by image.
class Layouts {
 public:
  explicit Layouts(const ConvProblem& p) {
    const auto pixels = static_cast<std::uint64_t>(p.n * p.h * p.w);
    const auto c = static_cast<std::uint64_t>(p.c);
    const auto k = static_cast<std::uint64_t>(p.k);
    const cudaDataType_t in = cublas_type(p.element());
    const cudaDataType_t out = cublas_type(p.output_element());
    if (is_planar(p)) {
      const std::int64_t plane = p.h * p.w;
      const auto rows = static_cast<std::uint64_t>(plane);
      init(&w_, in, c, k, p.c);
      init(&x_, in, rows, c, plane);
      init(&y_, out, rows, k, plane);
      init(&residual_, out, rows, k, plane);
      repeat(&w_, p.n, 0);
      repeat(&x_, p.n, plane * p.c);
      repeat(&y_, p.n, plane * p.k);
      repeat(&residual_, p.n, plane * p.k);
      return;
    }
    init(&w_, in, c, k, p.c);
    init(&x_, in, c, pixels, p.c);
    init(&y_, out, k, pixels, p.y_pitch == 0 ? p.k : p.y_pitch);
    init(&residual_, out, k, pixels, p.y_pitch == 0 || p.residual ? p.k : p.y_pitch);
  }
  cublasLtMatrixLayout_t w() const { return &w_; }
  cublasLtMatrixLayout_t x() const { return &x_; }
  cublasLtMatrixLayout_t y() const { return &y_; }
  /// The matrix that comes first in a product.
  cublasLtMatrixLayout_t left(bool planar) const { return planar ? x() : w(); }
  /// Of what is added to the product: y itself, times zero, where there is no residual.
  cublasLtMatrixLayout_t residual() const { return &residual_; }

 private:
  static void init(cublasLtMatrixLayout_t layout, cudaDataType_t type, std::uint64_t rows, std::uint64_t columns,
                   std::int64_t pitch) {
    check(cublasLtMatrixLayoutInit(layout, type, rows, columns, pitch), "describing a matrix");
  }

  static void repeat(cublasLtMatrixLayout_t layout, std::int64_t times, std::int64_t step) {
    const auto count = static_cast<std::int32_t>(times);
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
          "describing a matrix");
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
          "describing a matrix");
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
             const cublasLtMatmulHeuristicResult_t& result, std::string name, bool epilogue)
      : layouts_(layouts),
        desc_(desc),
        algorithm_(result.algo),
        by_(factors_of(problem.element() == DType::F64)),
        bias_(problem.bias && epilogue),
        planar_(is_planar(problem)) {
    const bool activation = problem.activation.is_none() || (epilogue && problem.activation == Activation::relu());
    describe(std::move(name), static_cast<std::int64_t>(result.workspaceSize), Fused{epilogue, true, activation});
  }

 private:
  cudaError_t enqueue(const Handles& handles, const ConvArguments& a) const override {
    cublasLtMatmulDescOpaque_t desc = desc_;
    if (bias_) {
      const cublasStatus_t status =
          cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a.bias, sizeof(a.bias));
      if (status != CUBLAS_STATUS_SUCCESS) return to_cuda(status);
    }
    const bool residual = a.residual != nullptr;
    return to_cuda(cublasLtMatmul(handles.cublas_lt(), &desc, by_.one, planar_ ? a.x : a.w, layouts_.left(planar_),
                                  planar_ ? a.w : a.x, layouts_.left(!planar_), residual ? by_.one : by_.zero,
                                  residual ? a.residual : a.y, layouts_.residual(), a.y, layouts_.y(), &algorithm_,
                                  a.workspace, static_cast<std::size_t>(workspace_bytes()), handles.stream()));
  }

  Layouts layouts_;
  cublasLtMatmulDescOpaque_t desc_;
  cublasLtMatmulAlgo_t algorithm_;
  Factors by_;
  bool bias_;
  bool planar_;
};

cublasLtMatmulDescOpaque_t make_desc(const ConvProblem& p, bool epilogue) {
  cublasLtMatmulDescOpaque_t desc{};
  const bool of_double = p.precision == Precision::Fp64;
  const cublasComputeType_t in_float =
      p.precision == Precision::Tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescInit(&desc, of_double ? CUBLAS_COMPUTE_64F : in_float, of_double ? CUDA_R_64F : CUDA_R_32F),
        "describing a matrix product");
  if (!is_planar(p)) set(&desc, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (epilogue) set(&desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
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
    set(preference, name, is_planar(problem) ? kPlanarAlignment : kPointerAlignment);
  }
  if (problem.precision == Precision::Fp16) {
    // Partial sums of split-K in half would not be accumulation in float.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(kAlgorithmsAsked);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handles.cublas_lt(), &desc, layouts.left(is_planar(problem)), layouts.left(!is_planar(problem)),
      layouts.residual(), layouts.y(), &preference, kAlgorithmsAsked, results.data(), &found);
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

/// `epilogue`: with bias and ReLU. False when the sink has enough.
bool offer(const Handles& handles, const ConvProblem& problem, bool epilogue, const KernelSink& sink) {
  const Layouts layouts(problem);
  const cublasLtMatmulDescOpaque_t desc = make_desc(problem, epilogue);
  const auto results = propose(handles, problem, layouts, desc);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank].state != CUBLAS_STATUS_SUCCESS) continue;
    const std::string name = name_of(results[rank], rank) + (epilogue ? "" : "_bare");
    if (!sink(std::make_shared<GemmKernel>(problem, layouts, desc, results[rank], name, epilogue))) return false;
  }
  return true;
}

}  // namespace

void cublas_gemm_kernels(const Handles& handles, const ConvProblem& problem, const KernelSink& sink) {
  const bool of_double = problem.precision == Precision::Fp64;
  if (!problem.is_pointwise() || (is_planar(problem) && !of_double)) return;
  // The epilogues run along rows, which planes are not, and hardly any are there for double.
  if (!is_planar(problem) && !offer(handles, problem, true, sink)) return;
  if (of_double) offer(handles, problem, false, sink);
}

}  // namespace mobicuda::cudnn
