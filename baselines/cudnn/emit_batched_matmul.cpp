// Products of matrices that are activations: cuBLASLt's strided batches.

#include <cstdint>
#include <memory>

#include "cudnn/cudnn_check.h"
#include "cudnn/library_descriptors.h"
#include "cudnn/plan_builder.h"
#include "cudnn/tensor_formats.h"

namespace mobicuda::cudnn {
namespace {

constexpr const char* kDescribing = "describing a product of matrices";

// y (m, p) = a (m, k) * b (k, p) in row-major order, which to cuBLASLt, that is column-major, is y^T = b^T * a^T.
struct Product {
  cublasLtMatmulDescOpaque_t desc{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, y{};
  cublasLtMatmulAlgo_t algorithm{};
  Factors by{};
};

void describe(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, std::int64_t batch, std::int64_t rows,
              std::int64_t columns) {
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t step = rows * columns;
  check(cublasLtMatrixLayoutInit(&layout, type, static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
                                 columns),
        kDescribing);
  check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
        kDescribing);
  check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
        kDescribing);
}

template <class T>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t name, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, name, &value, sizeof(value)), kDescribing);
}

// The heuristic's first choice that needs no memory of its own. Exact fp32; of half, sums are in float.
bool choose(const Handles& handles, Product& product) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference), kDescribing);
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(preference, name, static_cast<std::uint32_t>(PlanBuilder::kAlignment));
  }
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handles.cublas_lt(), &product.desc, &product.b, &product.a, &product.y, &product.y,
                                     &preference, 1, &result, &found);
  product.algorithm = result.algo;
  return status == CUBLAS_STATUS_SUCCESS && found == 1 && result.state == CUBLAS_STATUS_SUCCESS;
}

}  // namespace

void emit(PlanBuilder& plan, const Node& node, const BatchedMatMul&) {
  const std::string label = node.origin.label();
  const auto packed = [&](std::size_t position, const char* side) {
    const Stored& x = plan.stored(node.inputs[position]);
    return plan.convert(x, plan.element(), Layout::NCHW, x.shape[1], std::string(side) + " input of " + label);
  };
  const Stored a = packed(BatchedMatMul::kLeft, "left");
  const Stored b = packed(BatchedMatMul::kRight, "right");
  Stored y{{}, plan.element(), Layout::NCHW, plan.with_batch(plan.graph().value(node.output).desc.shape)};
  y.place.buffer = plan.add_buffer(y.shape.elements() * size_of(y.dtype));
  plan.set_stored(node, y);

  const std::int64_t k = a.shape.dims().back();
  const std::int64_t m = a.shape[a.shape.rank() - 2];
  const std::int64_t p = y.shape.dims().back();
  const std::int64_t batch = a.shape.elements() / (m * k);
  const bool of_double = plan.element() == DType::F64;
  const cudaDataType_t type = of_double ? CUDA_R_64F : plan.element() == DType::F16 ? CUDA_R_16F : CUDA_R_32F;
  const auto product = std::make_shared<Product>();
  check(cublasLtMatmulDescInit(&product->desc, of_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                               of_double ? CUDA_R_64F : CUDA_R_32F),
        kDescribing);
  describe(product->a, type, batch, m, k);
  describe(product->b, type, batch, k, p);
  describe(product->y, type, batch, m, p);
  product->by = factors_of(of_double);
  if (!choose(plan.search().handles(), *product)) {
    throw Error(ErrorCode::unsupported, node.origin.describe(), "cuBLASLt has no product of such matrices");
  }
  LayerInfo info = plan.layer_info(node, "cublaslt/batched_matmul");
  info.flops = flops_per_picture(plan.graph(), node);
  info.activation_bytes =
      (a.shape.elements() + b.shape.elements() + y.shape.elements()) * size_of(y.dtype) / plan.options().max_batch;
  plan.add_step(
      std::move(info), {a.place.buffer, b.place.buffer, y.place.buffer},
      [product, left = a.place, right = b.place, to = y.place](const CudaStepContext& c, const Handles& handles) {
        Product& its = *product;
        return to_cuda(cublasLtMatmul(handles.cublas_lt(), &its.desc, its.by.one, right.in(c), &its.b, left.in(c),
                                      &its.a, its.by.zero, to.in(c), &its.y, to.in(c), &its.y, &its.algorithm, nullptr,
                                      0, handles.stream()));
      });
}

}  // namespace mobicuda::cudnn
