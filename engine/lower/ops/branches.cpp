// What networks with branches and attention need: joining, cutting and multiplying activations, functions that are no
// clip, and normalisations.
#include <numeric>

#include "kernels/batched_matmul/batched_matmul.h"
#include "kernels/streaming/concat.h"
#include "kernels/streaming/local_response_norm.h"
#include "kernels/streaming/normalize.h"
#include "kernels/streaming/unary.h"
#include "lower/ops.h"

namespace mobicuda {

namespace {

// Logical axes from the outermost to the innermost in memory.
std::vector<std::size_t> memory_order(const TensorDesc& desc) {
  if (desc.shape.rank() == 4 && desc.layout == Layout::NHWC) return {0, 2, 3, 1};
  std::vector<std::size_t> order(desc.shape.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// A value along one axis: rows, in one image, of the elements that an index of this axis and those inside of it
// stand for.
struct Rows {
  std::int64_t rows = 1;
  std::int64_t inner = 1;  ///< elements of one index
};

Rows rows_along(const TensorDesc& desc, std::int64_t along) {
  Rows result;
  bool inside = false;
  for (const std::size_t axis : memory_order(desc)) {
    if (inside) result.inner *= desc.shape[axis];
    inside = inside || axis == static_cast<std::size_t>(along);
    if (!inside && axis != 0) result.rows *= desc.shape[axis];
  }
  return result;
}

void add_copies(Lowering& to, const Node& node, kernels::ConcatParams params, std::int64_t rows,
                std::vector<Storage> sources, Storage y) {
  LayerInfo info = to.describe(node, "concat");
  info.activation_bytes = 0;
  std::vector<int> buffers{y.buffer};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    info.activation_bytes += 2 * rows * params.part[i].columns * static_cast<std::int64_t>(size_of(to.elem()));
    buffers.push_back(sources[i].buffer);
  }
  // y starts at its slice's first channel, and ends with the last of them in its last pixel.
  to.add_step(std::move(info), buffers,
              [params, rows, sources = std::move(sources), y](const CudaStepContext& context) {
                auto p = params;
                p.rows = context.n * rows;
                const void* x[kernels::kMostConcatParts] = {};
                for (std::size_t i = 0; i < sources.size(); ++i) x[i] = sources[i].in(context);
                return kernels::concat(p, x, y.in(context), launch_of(context));
              });
}

}  // namespace

void lower(Lowering& to, const Node& node, const Concat& op) {
  const TensorDesc& desc = to.graph().value(node.output).desc;
  const auto axis = static_cast<std::size_t>(op.axis);
  const Rows rows = rows_along(desc, op.axis);
  const Storage y = to.make_rows(node, false);
  std::vector<Storage> sources;
  kernels::ConcatParams params;
  params.elem = to.elem();
  params.pitch = y.pitch != 0 ? y.pitch : desc.shape[axis] * rows.inner;
  std::int64_t first = 0;
  for (const ValueId id : node.inputs) {
    const Storage x = to.read_rows(id);
    const std::int64_t columns = to.shape(id)[axis] * rows.inner;
    const bool in_place = x.buffer == y.buffer && x.first == y.first + first;
    if (!in_place) {
      if (params.parts == kernels::kMostConcatParts)
        add_copies(to, node, params, rows.rows, std::exchange(sources, {}), y);
      if (sources.empty()) params.parts = 0;
      params.part[params.parts++] = {columns, x.pitch != 0 ? x.pitch : columns, first};
      sources.push_back(x);
    }
    first += columns;
  }
  if (!sources.empty()) add_copies(to, node, params, rows.rows, std::move(sources), y);
}

void lower(Lowering& to, const Node& node, const Slice& op) {
  const TensorDesc& desc = to.graph().value(node.inputs[Slice::kInput]).desc;
  const Storage x = to.read_input(node.inputs[Slice::kInput]);
  const Storage y = to.make_output(node, false);
  const Rows rows = rows_along(desc, op.axis);
  kernels::ConcatParams params;
  params.elem = to.elem();
  params.pitch = op.extent * rows.inner;
  params.parts = 1;
  params.part[0] = {params.pitch, desc.shape[static_cast<std::size_t>(op.axis)] * rows.inner, 0};
  const std::int64_t skipped_bytes = op.first * rows.inner * static_cast<std::int64_t>(size_of(to.elem()));
  LayerInfo info = to.describe(node, "concat/slice");
  info.activation_bytes = 2 * to.shape(node.output).elements() * static_cast<std::int64_t>(size_of(to.elem()));
  to.add_step(std::move(info), {x.buffer, y.buffer},
              [params, rows = rows.rows, skipped_bytes, x, y](const CudaStepContext& context) {
                auto p = params;
                p.rows = context.n * rows;
                const void* from = static_cast<const std::byte*>(x.in(context)) + skipped_bytes;
                return kernels::concat(p, &from, y.in(context), launch_of(context));
              });
}

kernels::Broadcast broadcast_of(const Graph& graph, const Node& node) {
  const TensorDesc& a = graph.value(node.inputs[0]).desc;
  const TensorDesc& b = graph.value(node.inputs[1]).desc;
  std::vector<std::int64_t> b_stride(b.shape.rank());
  std::int64_t stride = 1;
  const std::vector<std::size_t> b_order = memory_order(b);
  for (auto axis = b_order.rbegin(); axis != b_order.rend(); ++axis) {
    b_stride[*axis] = b.shape[*axis] == 1 ? 0 : stride;
    stride *= b.shape[*axis];
  }
  kernels::Broadcast operands;
  for (const std::size_t axis : memory_order(a)) {
    operands.extent[operands.axes] = a.shape[axis];
    operands.b_stride[operands.axes++] = axis == 0 ? stride : b_stride[axis];
  }
  return operands;
}

namespace {

// A step of `kernel`; of its parameters, where the operands lie and their type are filled in.
template <class Params>
void lower_broadcast(Lowering& to, const Node& node, Params params, const char* name,
                     cudaError_t (*kernel)(const Params&, const void*, const void*, void*, const kernels::Launch&)) {
  const Storage a = to.read_input(node.inputs[0]);
  const Storage b = to.read_input(node.inputs[1]);
  const Storage y = to.make_output(node, false);
  static_cast<kernels::Broadcast&>(params) = broadcast_of(to.graph(), node);
  params.elem = to.elem();
  to.add_step(to.describe(node, name), {a.buffer, b.buffer, y.buffer},
              [params, kernel, a, b, y](const CudaStepContext& context) {
                auto p = params;
                p.extent[0] = context.n;
                return kernel(p, a.in(context), b.in(context), y.in(context), launch_of(context));
              });
}

}  // namespace

void lower(Lowering& to, const Node& node, const Mul& op) {
  kernels::MultiplyParams params;
  params.activation = as_kernel_activation(op.activation);
  lower_broadcast(to, node, params, "multiply", kernels::multiply);
}

void lower(Lowering& to, const Node& node, const Extremum& op) {
  kernels::ExtremumParams params;
  params.largest = op.kind == ExtremumKind::Max;
  params.activation = as_kernel_activation(op.activation);
  lower_broadcast(to, node, params, "extremum", kernels::extremum);
}

void lower(Lowering& to, const Node& node, const Unary& op) {
  const Storage x = to.read_input(node.inputs[Unary::kInput]);
  const Storage y = to.make_output(node, false);
  kernels::UnaryParams params;
  params.elem = to.elem();
  params.alpha = op.alpha;
  params.function = [&] {
    switch (op.kind) {
      case UnaryKind::Silu:
        return kernels::UnaryFunction::Silu;
      case UnaryKind::HardSwish:
        return kernels::UnaryFunction::HardSwish;
      case UnaryKind::Tanh:
        return kernels::UnaryFunction::Tanh;
      case UnaryKind::LeakyRelu:
        return kernels::UnaryFunction::LeakyRelu;
      case UnaryKind::Elu:
        return kernels::UnaryFunction::Elu;
      case UnaryKind::Erf:
        return kernels::UnaryFunction::Erf;
      case UnaryKind::Gelu:
        return kernels::UnaryFunction::Gelu;
      case UnaryKind::GeluTanh:
        return kernels::UnaryFunction::GeluTanh;
      case UnaryKind::Softplus:
        return kernels::UnaryFunction::Softplus;
      case UnaryKind::Sqrt:
        return kernels::UnaryFunction::Sqrt;
      case UnaryKind::Reciprocal:
        return kernels::UnaryFunction::Reciprocal;
      case UnaryKind::Exp:
        return kernels::UnaryFunction::Exp;
      case UnaryKind::Sigmoid:
        break;
    }
    return kernels::UnaryFunction::Sigmoid;
  }();
  to.add_step(to.describe(node, "unary"), {x.buffer, y.buffer},
              [params, elements = to.shape(node.output).elements(), x, y](const CudaStepContext& context) {
                auto p = params;
                p.elements = context.n * elements;
                return kernels::unary(p, x.in(context), y.in(context), launch_of(context));
              });
}

void lower(Lowering& to, const Node& node, const LocalResponseNorm& op) {
  const Storage x = to.read_input(node.inputs[LocalResponseNorm::kInput]);
  const Storage y = to.make_output(node, false);
  const Shape& picture = to.shape(node.output);
  kernels::LocalResponseNormParams params;
  params.elem = to.elem();
  params.c = as_int(picture[1]);
  params.size = op.size;
  params.alpha = op.alpha;
  params.beta = op.beta;
  params.bias = op.bias;
  to.add_step(to.describe(node, "local_response_norm"), {x.buffer, y.buffer},
              [params, pixels = picture[2] * picture[3], x, y](const CudaStepContext& context) {
                auto p = params;
                p.pixels = context.n * pixels;
                return kernels::local_response_norm(p, x.in(context), y.in(context), launch_of(context));
              });
}

void lower(Lowering& to, const Node& node, const Normalize& op) {
  const Storage x = to.read_input(node.inputs[Normalize::kInput]);
  const Storage y = to.make_output(node, false);
  const Shape& picture = to.shape(node.output);
  const std::int64_t pixels = picture[2] * picture[3];
  const bool over_channels = op.over == NormalizedOver::Channels;
  kernels::NormalizeParams params;
  params.elem = to.elem();
  params.pixels = over_channels ? 1 : pixels;
  params.c = as_int(picture[1]);
  params.groups = as_int(op.groups);
  params.epsilon = op.epsilon;
  to.add_step(to.describe(node, "normalize"), {x.buffer, y.buffer},
              [params, images = over_channels ? pixels : 1, x, y](const CudaStepContext& context) {
                auto p = params;
                p.images = context.n * images;
                return kernels::normalize(p, x.in(context), y.in(context), launch_of(context));
              });
}

void lower(Lowering& to, const Node& node, const BatchedMatMul&) {
  const Storage a = to.read_input(node.inputs[BatchedMatMul::kLeft]);
  const Storage b = to.read_input(node.inputs[BatchedMatMul::kRight]);
  const Storage y = to.make_output(node, false);
  const Shape& left = to.shape(node.inputs[BatchedMatMul::kLeft]);
  kernels::BatchedMatMulParams params;
  params.elem = to.elem();
  params.m = as_int(left[left.rank() - 2]);
  params.k = as_int(left.dims().back());
  params.p = as_int(to.shape(node.output).dims().back());
  const std::int64_t pairs = left.elements() / params.m / params.k;
  to.add_step(to.describe(node, "batched_matmul"), {a.buffer, b.buffer, y.buffer},
              [params, pairs, a, b, y](const CudaStepContext& context) {
                auto p = params;
                p.batch = context.n * pairs;
                return kernels::batched_matmul(p, a.in(context), b.in(context), y.in(context), launch_of(context));
              });
}

}  // namespace mobicuda
