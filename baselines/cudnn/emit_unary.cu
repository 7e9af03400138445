// Functions of single elements that are no activations. cuDNN has a pointwise operation for some of them, in its graph
// API alone: one kernel has them all.

#include <cmath>
#include <string>
#include <utility>

#include "cudnn/device_vectors.cuh"
#include "cudnn/plan_builder.h"
#include "cudnn/tensor_formats.h"

namespace mobicuda::cudnn {
namespace {

template <class R>
__device__ R function_of(UnaryKind kind, R x) {
  switch (kind) {
    case UnaryKind::Gelu:
      return R{0.5} * x * erfc(x * static_cast<R>(-0.70710678118654752));
    case UnaryKind::GeluTanh: {
      const R inner = static_cast<R>(1.5957691216057308) * (x + static_cast<R>(0.044715) * x * x * x);
      return x / (R{1} + exp(-inner));
    }
    case UnaryKind::Softplus:
      return (x > R{0} ? x : R{0}) + log1p(exp(-abs(x)));
    case UnaryKind::Sqrt:
      return sqrt(x);
    case UnaryKind::Reciprocal:
      return R{1} / x;
    case UnaryKind::Exp:
      return exp(x);
    default:
      return erf(x);
  }
}

template <class T>
__global__ void function_kernel(unsigned elements, UnaryKind kind, const T* x, T* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < elements) store(function_of(kind, to_real(x[i])), y[i]);
}

template <class T>
cudaError_t launch(std::int64_t elements, UnaryKind kind, const void* x, void* y, cudaStream_t stream) {
  if (!fits_index(elements)) return cudaErrorInvalidValue;
  if (elements == 0) return cudaSuccess;
  function_kernel<T><<<blocks_for(elements), kThreads, 0, stream>>>(static_cast<unsigned>(elements), kind,
                                                                    static_cast<const T*>(x), static_cast<T*>(y));
  return cudaGetLastError();
}

cudaError_t apply(std::int64_t elements, DType dtype, UnaryKind kind, const void* x, void* y, cudaStream_t stream) {
  if (dtype == DType::F64) return launch<double>(elements, kind, x, y, stream);
  return dtype == DType::F16 ? launch<__half>(elements, kind, x, y, stream)
                             : launch<float>(elements, kind, x, y, stream);
}

}  // namespace

void emit_function(PlanBuilder& plan, const Node& node, UnaryKind kind) {
  const Stored x = plan.in_plan_format(plan.stored(node.inputs[Unary::kInput]), "input of " + node.origin.label());
  const Stored y = plan.new_output(node, plan.element());
  LayerInfo info = plan.layer_info(node, "elementwise/function");
  info.flops = flops_per_picture(plan.graph(), node);
  info.activation_bytes = 2 * x.shape.elements() * size_of(plan.element()) / plan.options().max_batch;
  plan.add_step(std::move(info), {x.place.buffer, y.place.buffer},
                [elements = x.shape.elements(), dtype = plan.element(), kind, from = x.place, to = y.place](
                    const CudaStepContext& c, const Handles&) {
                  return apply(elements, dtype, kind, from.in(c), to.in(c), c.stream);
                });
}

}  // namespace mobicuda::cudnn
