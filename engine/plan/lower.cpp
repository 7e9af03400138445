#include "plan/lower.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/layout_transform.h"
#include "kernels/pooling.h"
#include "kernels/softmax.h"
#include "plan/memory_planner.h"

namespace mobicuda {
namespace {

using kernels::Elem;
using kernels::Launch;

constexpr int kNoBuffer = -1;
constexpr float kLargestHalf = 65504.0F;

int as_int(std::int64_t value) { return static_cast<int>(value); }  // shapes were checked by fits_int()

kernels::Clip as_clip(const Activation& activation) { return {activation.lo, activation.hi}; }

Launch launch_of(const CudaStepContext& context) { return {context.stream, context.programmatic}; }

bool is_pointwise(const Conv2d& op, const Shape& weight) {
  return weight[2] == 1 && weight[3] == 1 && op.strides == std::array<std::int64_t, 2>{1, 1} && !op.pads.any() &&
         op.groups == 1;
}

bool is_depthwise(const Conv2d& op, const Shape& weight) {
  return op.groups == weight[0] && weight[1] == 1 && op.groups > 1;
}

/// Builds the plan node by node. Values are mapped to buffers; a Reshape only renames its input's buffer.
class Lowering {
 public:
  Lowering(const Graph& graph, const EngineOptions& options, GpuTraits gpu)
      : graph_(graph),
        options_(options),
        chooser_(gpu, options.kernel_variants),
        elem_(options.precision == Precision::Fp16 ? Elem::F16 : Elem::F32),
        storage_(graph.values().size()) {}

  CudaPlan run() {
    input_ = {add_buffer(CudaBuffer::Place::Input, picture_bytes(graph_.input(), Elem::F32)), Elem::F32};
    storage_of(graph_.input()) = input_;
    for (const Node& node : graph_.nodes()) {
      std::visit([&](const auto& op) { lower(node, op); }, node.op);
    }
    write_output();
    place_buffers();
    upload_weights();
    return std::move(plan_);
  }

 private:
  struct Storage {
    int buffer = kNoBuffer;
    Elem elem = Elem::F32;
  };

  struct Life {
    int first_step = std::numeric_limits<int>::max();
    int last_step = -1;
  };

  // A weight or bias before upload: its place in the blob. Steps read the address through `weights_`.
  struct Packed {
    std::int64_t offset = -1;
    std::int64_t bytes = 0;
  };

  // ---- values and buffers ----

  const Shape& shape(ValueId id) const { return graph_.value(id).desc.shape; }
  Storage& storage_of(ValueId id) { return storage_.at(static_cast<std::size_t>(id)); }

  std::int64_t picture_bytes(ValueId id, Elem elem) const {
    return shape(id).elements() * static_cast<std::int64_t>(size_of(elem));
  }

  int add_buffer(CudaBuffer::Place place, std::int64_t bytes_a_picture) {
    plan_.buffers.push_back({place, 0, checked_multiply(bytes_a_picture, options_.max_batch)});
    lives_.emplace_back();
    return static_cast<int>(plan_.buffers.size() - 1);
  }

  // Whether the kernel that makes this value may write the caller's float output itself.
  bool is_final(ValueId id) const {
    if (!graph_.consumers(id).empty() && id != graph_.output()) {
      const auto readers = graph_.consumers(id);
      if (readers.size() != 1) return false;
      const Node& reader = graph_.nodes()[readers.front()];
      return std::holds_alternative<Reshape>(reader.op) && is_final(reader.output);
    }
    return id == graph_.output() && graph_.consumers(id).empty();
  }

  Storage make_output(const Node& node, bool can_write_float) {
    Storage storage;
    if (is_final(node.output) && (elem_ == Elem::F32 || can_write_float)) {
      storage = {add_buffer(CudaBuffer::Place::Output, picture_bytes(node.output, Elem::F32)), Elem::F32};
    } else {
      storage = {add_buffer(CudaBuffer::Place::Arena, picture_bytes(node.output, elem_)), elem_};
    }
    storage_of(node.output) = storage;
    return storage;
  }

  // The network's float input, for kernels that read elem_ only.
  Storage read_input(ValueId id) {
    const Storage storage = storage_of(id);
    if (storage.elem == elem_) return storage;
    const Storage converted{add_buffer(CudaBuffer::Place::Arena, picture_bytes(id, elem_)), elem_};
    add_conversion("to_" + std::string(to_string(options_.precision)) + "(" + graph_.value(id).name + ")", shape(id),
                   storage, converted);
    storage_of(id) = converted;
    return converted;
  }

  void add_conversion(const std::string& name, const Shape& value_shape, Storage from, Storage to) {
    kernels::LayoutTransformParams params;
    params.from = from.elem;
    params.to = to.elem;
    params.c = as_int(value_shape.elements());
    params.h = params.w = 1;
    LayerInfo info{name, "layout_transform/convert", value_shape, 0, 0, 0};
    info.activation_bytes = value_shape.elements() * static_cast<std::int64_t>(size_of(from.elem) + size_of(to.elem));
    add_step(std::move(info), {from.buffer, to.buffer},
             [params, in = from.buffer, out = to.buffer](const CudaStepContext& context) {
               auto p = params;
               p.n = as_int(context.n);
               return kernels::layout_transform(p, context.buffers[in], context.buffers[out], launch_of(context));
             });
  }

  void write_output() {
    const Storage last = storage_of(graph_.output());
    if (plan_.buffers[static_cast<std::size_t>(last.buffer)].place == CudaBuffer::Place::Output) return;
    const Storage out{add_buffer(CudaBuffer::Place::Output, picture_bytes(graph_.output(), Elem::F32)), Elem::F32};
    add_conversion("to_fp32(" + graph_.value(graph_.output()).name + ")", shape(graph_.output()), last, out);
  }

  void place_buffers() {
    std::vector<BufferRequest> requests;
    std::vector<std::size_t> owners;
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].place != CudaBuffer::Place::Arena) continue;
      requests.push_back({plan_.buffers[i].bytes, lives_[i].first_step, lives_[i].last_step});
      owners.push_back(i);
    }
    const MemoryPlan memory = plan_memory(requests);
    for (std::size_t i = 0; i < owners.size(); ++i) plan_.buffers[owners[i]].offset = memory.offsets[i];
    plan_.arena_bytes = memory.arena_bytes;
  }

  // ---- steps and weights ----

  template <class Enqueue>
  void add_step(LayerInfo info, std::initializer_list<int> buffers, Enqueue enqueue) {
    const int step = static_cast<int>(plan_.steps.size());
    for (const int buffer : buffers) {
      if (buffer == kNoBuffer) continue;
      Life& life = lives_[static_cast<std::size_t>(buffer)];
      life.first_step = std::min(life.first_step, step);
      life.last_step = std::max(life.last_step, step);
    }
    plan_.steps.push_back({std::move(info), std::move(enqueue)});
  }

  LayerInfo describe(const Node& node, std::string kernel) const {
    LayerInfo info;
    info.name = node.origin.label();
    info.kernel = std::move(kernel);
    info.output = shape(node.output);
    info.flops = flops_per_picture(graph_, node);
    const auto elem_bytes = static_cast<std::int64_t>(size_of(elem_));
    info.activation_bytes = info.output.elements() * elem_bytes;
    for (const ValueId id : node.inputs) {
      if (id != kNoValue && !graph_.value(id).constant) info.activation_bytes += shape(id).elements() * elem_bytes;
    }
    return info;
  }

  std::span<const float> floats(ValueId id) const { return graph_.value(id).constant->data<float>(); }

  template <class Pack>
  Packed pack(const Node& node, ValueId weight, std::size_t bytes, Pack&& pack_into) {
    if (elem_ == Elem::F16) require_half_range(node, weight);
    std::byte* host = nullptr;
    const std::int64_t offset = blob_.add(static_cast<std::int64_t>(bytes), &host);
    pack_into(floats(weight).data(), host);
    return {offset, static_cast<std::int64_t>(bytes)};
  }

  Packed pack_floats(ValueId id) {
    if (id == kNoValue) return {};
    const auto values = std::as_bytes(floats(id));
    std::byte* host = nullptr;
    const std::int64_t offset = blob_.add(static_cast<std::int64_t>(values.size()), &host);
    std::copy(values.begin(), values.end(), host);
    return {offset, static_cast<std::int64_t>(values.size())};
  }

  void require_half_range(const Node& node, ValueId weight) const {
    for (const float w : floats(weight)) {
      if (std::abs(w) > kLargestHalf) {
        throw Error(ErrorCode::unsupported, node.origin.describe(),
                    "weight " + std::to_string(w) + " of '" + graph_.value(weight).name + "' is beyond fp16's 65504",
                    "use --precision fp32");
      }
    }
  }

  void upload_weights() {
    const auto device = blob_.upload();
    *weights_ = static_cast<const std::byte*>(device->data());
    plan_.weight_bytes = blob_.bytes();
    plan_.keep_alive.push_back(device);
  }

  // Address of packed data when a step runs; null for an absent one.
  struct WeightPointer {
    std::shared_ptr<const std::byte*> base;
    std::int64_t offset;

    template <class T = void>
    const T* get() const {
      return offset < 0 ? nullptr : reinterpret_cast<const T*>(*base + offset);
    }
  };
  WeightPointer pointer(const Packed& packed) const { return {weights_, packed.offset}; }

  template <class Params>
  auto choose(const Node& node, const Params& params) const {
    try {
      if constexpr (std::is_same_v<Params, kernels::GemmParams>)
        return chooser_.gemm(params);
      else if constexpr (std::is_same_v<Params, kernels::DepthwiseConvParams>)
        return chooser_.depthwise_conv(params);
      else
        return chooser_.conv2d(params);
    } catch (const Error& error) {
      throw error.inside(node.origin.describe());
    }
  }

  // ---- operations ----

  void lower(const Node& node, const Conv2d& op) {
    const Shape& weight = shape(node.inputs[Conv2d::kWeight]);
    if (is_pointwise(op, weight)) {
      const Shape& x = shape(node.inputs[Conv2d::kInput]);
      lower_gemm(node, as_int(x[2] * x[3]), as_int(weight[0]), as_int(weight[1]), node.inputs[Conv2d::kBias],
                 node.inputs[Conv2d::kResidual], op.activation);
    } else if (is_depthwise(op, weight)) {
      lower_depthwise(node, op);
    } else {
      lower_conv2d(node, op);
    }
  }

  void lower(const Node& node, const Gemm& op) {
    const Shape& weight = shape(node.inputs[Gemm::kWeight]);
    lower_gemm(node, 1, as_int(weight[0]), as_int(weight[1]), node.inputs[Gemm::kBias], kNoValue, op.activation);
  }

  // Positions of input and weight are the same in Conv2d and Gemm.
  void lower_gemm(const Node& node, int rows_a_picture, int n, int k, ValueId bias_id, ValueId residual_id,
                  const Activation& activation) {
    const Storage x = read_input(node.inputs[Conv2d::kInput]);
    const Storage residual = residual_id == kNoValue ? Storage{} : read_input(residual_id);
    const Packed weight = pack(node, node.inputs[Conv2d::kWeight], kernels::gemm_packed_bytes(elem_, n, k),
                               [&](const float* w, void* packed) { kernels::gemm_pack(elem_, n, k, w, packed); });
    const Packed bias = pack_floats(bias_id);
    const Storage y = make_output(node, true);
    kernels::GemmParams params;
    params.elem = elem_;
    params.output = y.elem;
    params.n = n;
    params.k = k;
    params.bias = bias_id != kNoValue;
    params.residual = residual_id != kNoValue;
    params.clip = as_clip(activation);
    params.m = as_int(options_.max_batch) * rows_a_picture;
    LayerInfo info = describe(node, "gemm/" + std::string(kernels::name(choose(node, params))));
    info.weight_bytes = weight.bytes + bias.bytes;
    add_step(std::move(info), {x.buffer, residual.buffer, y.buffer},
             [params, rows_a_picture, chooser = chooser_, x, residual, y, w = pointer(weight),
              b = pointer(bias)](const CudaStepContext& context) {
               auto p = params;
               p.m = as_int(context.n) * rows_a_picture;
               return kernels::gemm(chooser.gemm(p), p, context.buffers[x.buffer], w.get(), b.template get<float>(),
                                    residual.buffer == kNoBuffer ? nullptr : context.buffers[residual.buffer],
                                    context.buffers[y.buffer], launch_of(context));
             });
  }

  void lower_depthwise(const Node& node, const Conv2d& op) {
    const Storage x = read_input(node.inputs[Conv2d::kInput]);
    const ValueId residual_id = node.inputs[Conv2d::kResidual];
    const Storage residual = residual_id == kNoValue ? Storage{} : read_input(residual_id);
    const Shape& in = shape(node.inputs[Conv2d::kInput]);
    const Shape& weight_shape = shape(node.inputs[Conv2d::kWeight]);
    const Shape& out = shape(node.output);
    kernels::DepthwiseConvParams params;
    params.elem = elem_;
    params.n = as_int(options_.max_batch);
    params.h = as_int(in[2]);
    params.w = as_int(in[3]);
    params.c = as_int(in[1]);
    params.out_h = as_int(out[2]);
    params.out_w = as_int(out[3]);
    set_window(params, op, weight_shape);
    params.bias = node.inputs[Conv2d::kBias] != kNoValue;
    // With a residual the clip belongs behind the addition.
    params.clip = as_clip(residual_id == kNoValue ? op.activation : Activation::none());
    const Packed weight =
        pack(node, node.inputs[Conv2d::kWeight],
             kernels::depthwise_conv_packed_bytes(elem_, params.c, params.kernel_h, params.kernel_w),
             [&](const float* w, void* packed) {
               kernels::depthwise_conv_pack(elem_, params.c, params.kernel_h, params.kernel_w, w, packed);
             });
    const Packed bias = pack_floats(node.inputs[Conv2d::kBias]);
    const Storage y = make_output(node, false);
    LayerInfo info = describe(node, "depthwise_conv/" + std::string(kernels::name(choose(node, params))));
    info.weight_bytes = weight.bytes + bias.bytes;
    add_step(
        std::move(info), {x.buffer, y.buffer},
        [params, chooser = chooser_, x, y, w = pointer(weight), b = pointer(bias)](const CudaStepContext& context) {
          auto p = params;
          p.n = as_int(context.n);
          return kernels::depthwise_conv(chooser.depthwise_conv(p), p, context.buffers[x.buffer], w.get(),
                                         b.template get<float>(), context.buffers[y.buffer], launch_of(context));
        });
    if (residual_id != kNoValue) add_addition(describe(node, "elementwise/add"), y, residual, y, out, op.activation);
  }

  void lower_conv2d(const Node& node, const Conv2d& op) {
    const ValueId source = node.inputs[Conv2d::kInput];
    kernels::Conv2dParams params;
    const Storage x = conv2d_input(source, params);
    const ValueId residual_id = node.inputs[Conv2d::kResidual];
    const Storage residual = residual_id == kNoValue ? Storage{} : read_input(residual_id);
    const Shape& in = shape(source);
    const Shape& out = shape(node.output);
    params.elem = elem_;
    params.n = as_int(options_.max_batch);
    params.h = as_int(in[2]);
    params.w = as_int(in[3]);
    params.c_in = as_int(in[1]);
    params.c_out = as_int(out[1]);
    params.out_h = as_int(out[2]);
    params.out_w = as_int(out[3]);
    params.groups = as_int(op.groups);
    set_window(params, op, shape(node.inputs[Conv2d::kWeight]));
    params.bias = node.inputs[Conv2d::kBias] != kNoValue;
    params.residual = residual_id != kNoValue;
    params.clip = as_clip(op.activation);
    const Packed weight = pack(node, node.inputs[Conv2d::kWeight], kernels::conv2d_packed_bytes(params),
                               [&](const float* w, void* packed) { kernels::conv2d_pack(params, w, packed); });
    const Packed bias = pack_floats(node.inputs[Conv2d::kBias]);
    const Storage y = make_output(node, false);
    LayerInfo info = describe(node, "conv2d/" + std::string(kernels::name(choose(node, params))));
    info.weight_bytes = weight.bytes + bias.bytes;
    if (x.elem != elem_) info.activation_bytes += in.elements() * 2;  // the float input
    add_step(std::move(info), {x.buffer, residual.buffer, y.buffer},
             [params, chooser = chooser_, x, residual, y, w = pointer(weight),
              b = pointer(bias)](const CudaStepContext& context) {
               auto p = params;
               p.n = as_int(context.n);
               return kernels::conv2d(chooser.conv2d(p), p, context.buffers[x.buffer], w.get(), b.template get<float>(),
                                      residual.buffer == kNoBuffer ? nullptr : context.buffers[residual.buffer],
                                      context.buffers[y.buffer], launch_of(context));
             });
  }

  // A convolution reads the network's own float input in place, through a LayoutTransform that then has no reader.
  Storage conv2d_input(ValueId source, kernels::Conv2dParams& params) {
    const Storage direct = storage_of(source);
    if (direct.buffer == kNoBuffer) {
      params.input = kernels::Conv2dParams::Input::NchwFloat;
      return input_;
    }
    const bool float_input = source == graph_.input() && direct.elem == Elem::F32;
    params.input = float_input ? kernels::Conv2dParams::Input::NhwcFloat : kernels::Conv2dParams::Input::NhwcElem;
    return direct;
  }

  bool read_by_conv2d_only(ValueId id) const {
    const auto readers = graph_.consumers(id);
    return id != graph_.output() && std::all_of(readers.begin(), readers.end(), [&](std::size_t i) {
             const Node& reader = graph_.nodes()[i];
             const auto* conv = std::get_if<Conv2d>(&reader.op);
             if (conv == nullptr || reader.inputs[Conv2d::kResidual] == id) return false;
             const Shape& weight = shape(reader.inputs[Conv2d::kWeight]);
             return !is_pointwise(*conv, weight) && !is_depthwise(*conv, weight);
           });
  }

  void lower(const Node& node, const LayoutTransform& op) {
    const ValueId source = node.inputs[0];
    if (source == graph_.input() && op.to == Layout::NHWC && read_by_conv2d_only(node.output)) return;
    const Storage x = storage_of(source);
    const Storage y = make_output(node, true);
    const Shape& in = shape(source);
    kernels::LayoutTransformParams params;
    params.from = x.elem;
    params.to = y.elem;
    params.from_nhwc = graph_.value(source).desc.layout == Layout::NHWC;
    params.to_nhwc = op.to == Layout::NHWC;
    params.c = as_int(in[1]);
    params.h = as_int(in[2]);
    params.w = as_int(in[3]);
    add_step(describe(node, "layout_transform"), {x.buffer, y.buffer}, [params, x, y](const CudaStepContext& context) {
      auto p = params;
      p.n = as_int(context.n);
      return kernels::layout_transform(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
    });
  }

  void lower(const Node& node, const Add& op) {
    const Storage a = read_input(node.inputs[Add::kLeft]);
    const Storage b = read_input(node.inputs[Add::kRight]);
    const Storage y = make_output(node, false);
    add_addition(describe(node, "elementwise/add"), a, b, y, shape(node.output), op.activation);
  }

  void add_addition(LayerInfo info, Storage a, Storage b, Storage y, const Shape& picture,
                    const Activation& activation) {
    add_step(std::move(info), {a.buffer, b.buffer, y.buffer},
             [elem = elem_, elements = picture.elements(), clip = as_clip(activation), a, b,
              y](const CudaStepContext& context) {
               return kernels::add(elem, context.n * elements, clip, context.buffers[a.buffer],
                                   context.buffers[b.buffer], context.buffers[y.buffer], launch_of(context));
             });
  }

  void lower(const Node& node, const Clip& op) {
    const Storage x = read_input(node.inputs[0]);
    const Storage y = make_output(node, false);
    add_step(describe(node, "elementwise/clip"), {x.buffer, y.buffer},
             [elem = elem_, elements = shape(node.output).elements(), clip = as_clip(op.activation), x,
              y](const CudaStepContext& context) {
               return kernels::clip(elem, context.n * elements, clip, context.buffers[x.buffer],
                                    context.buffers[y.buffer], launch_of(context));
             });
  }

  void lower(const Node& node, const ScaleShift& op) {
    const Storage x = read_input(node.inputs[ScaleShift::kInput]);
    const Packed scale = pack_floats(node.inputs[ScaleShift::kScale]);
    const Packed shift = pack_floats(node.inputs[ScaleShift::kShift]);
    const Storage y = make_output(node, false);
    const int channels = as_int(shape(node.output)[1]);
    LayerInfo info = describe(node, "elementwise/scale_shift");
    info.weight_bytes = scale.bytes + shift.bytes;
    add_step(std::move(info), {x.buffer, y.buffer},
             [elem = elem_, rows = shape(node.output).elements() / channels, channels, clip = as_clip(op.activation), x,
              y, s = pointer(scale), t = pointer(shift)](const CudaStepContext& context) {
               return kernels::scale_shift(elem, context.n * rows, channels, clip, context.buffers[x.buffer],
                                           s.template get<float>(), t.template get<float>(), context.buffers[y.buffer],
                                           launch_of(context));
             });
  }

  void lower(const Node& node, const Pool2d& op) {
    const Storage x = read_input(node.inputs[0]);
    const Storage y = make_output(node, false);
    const Shape& in = shape(node.inputs[0]);
    const Shape& out = shape(node.output);
    kernels::PoolingParams params;
    params.elem = elem_;
    params.kind = op.kind == PoolKind::Max ? kernels::PoolingKind::Max : kernels::PoolingKind::Average;
    params.h = as_int(in[2]);
    params.w = as_int(in[3]);
    params.c = as_int(in[1]);
    params.out_h = as_int(out[2]);
    params.out_w = as_int(out[3]);
    params.kernel_h = as_int(op.kernel[0]);
    params.kernel_w = as_int(op.kernel[1]);
    params.stride_h = as_int(op.strides[0]);
    params.stride_w = as_int(op.strides[1]);
    params.pad_top = as_int(op.pads.top);
    params.pad_left = as_int(op.pads.left);
    params.pad_bottom = as_int(op.pads.bottom);
    params.pad_right = as_int(op.pads.right);
    params.count_include_pad = op.count_include_pad;
    const char* kernel = op.kind == PoolKind::Max ? "pooling/max" : "pooling/average";
    add_step(describe(node, kernel), {x.buffer, y.buffer}, [params, x, y](const CudaStepContext& context) {
      auto p = params;
      p.n = as_int(context.n);
      return kernels::pooling(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
    });
  }

  void lower(const Node& node, const GlobalAveragePool&) {
    const Storage x = read_input(node.inputs[0]);
    const Storage y = make_output(node, false);
    const Shape& in = shape(node.inputs[0]);
    kernels::GlobalAveragePoolParams params;
    params.elem = elem_;
    params.c = as_int(in[1]);
    params.h = as_int(in[2]);
    params.w = as_int(in[3]);
    add_step(describe(node, "pooling/global_average"), {x.buffer, y.buffer},
             [params, x, y](const CudaStepContext& context) {
               auto p = params;
               p.n = as_int(context.n);
               return kernels::global_average_pool(p, context.buffers[x.buffer], context.buffers[y.buffer],
                                                   launch_of(context));
             });
  }

  void lower(const Node& node, const Softmax&) {
    const Storage x = read_input(node.inputs[0]);
    const Storage y = make_output(node, true);
    kernels::SoftmaxParams params;
    params.elem = elem_;
    params.output = y.elem;
    params.columns = as_int(shape(node.output)[1]);
    add_step(describe(node, "softmax"), {x.buffer, y.buffer}, [params, x, y](const CudaStepContext& context) {
      auto p = params;
      p.rows = as_int(context.n);
      return kernels::softmax(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
    });
  }

  // choose_layout put the input in the order that the reshape speaks of: the same bytes under another shape.
  void lower(const Node& node, const Reshape&) { storage_of(node.output) = storage_of(node.inputs[0]); }

  void lower(const Node& node, const Transpose& op) {
    const Storage x = read_input(node.inputs[0]);
    const Storage y = make_output(node, false);
    kernels::TransposeParams params;
    params.elem = elem_;
    const Shape& in = shape(node.inputs[0]);
    for (std::size_t axis = 0; axis < in.rank(); ++axis) {
      params.shape[axis] = as_int(in[axis]);
      params.permutation[axis] = as_int(op.permutation[axis]);
    }
    add_step(describe(node, "layout_transform/transpose"), {x.buffer, y.buffer},
             [params, x, y](const CudaStepContext& context) {
               auto p = params;
               p.shape[0] = as_int(context.n);
               return kernels::transpose(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
             });
  }

  void lower(const Node& node, const Pad& op) {
    const Storage x = read_input(node.inputs[0]);
    const Storage y = make_output(node, false);
    const Shape& in = shape(node.inputs[0]);
    kernels::PadParams params;
    params.elem = elem_;
    params.h = as_int(in[2]);
    params.w = as_int(in[3]);
    params.c = as_int(in[1]);
    params.top = as_int(op.pads.top);
    params.left = as_int(op.pads.left);
    params.bottom = as_int(op.pads.bottom);
    params.right = as_int(op.pads.right);
    params.value = op.value;
    add_step(describe(node, "layout_transform/pad"), {x.buffer, y.buffer},
             [params, x, y](const CudaStepContext& context) {
               auto p = params;
               p.n = as_int(context.n);
               return kernels::pad(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
             });
  }

  void lower(const Node& node, const Identity&) {
    throw Error(ErrorCode::internal, node.origin.describe(), "Identity survived the passes");
  }

  // ---- helpers ----

  template <class Params>
  static void set_window(Params& params, const Conv2d& op, const Shape& weight) {
    params.kernel_h = as_int(weight[2]);
    params.kernel_w = as_int(weight[3]);
    params.stride_h = as_int(op.strides[0]);
    params.stride_w = as_int(op.strides[1]);
    params.dilation_h = as_int(op.dilations[0]);
    params.dilation_w = as_int(op.dilations[1]);
    params.pad_top = as_int(op.pads.top);
    params.pad_left = as_int(op.pads.left);
  }

  const Graph& graph_;
  const EngineOptions& options_;
  VariantChooser chooser_;
  Elem elem_;
  std::vector<Storage> storage_;
  Storage input_;  ///< the caller's floats
  std::vector<Life> lives_;
  CudaPlan plan_;
  WeightBlob blob_;
  std::shared_ptr<const std::byte*> weights_ = std::make_shared<const std::byte*>(nullptr);
};

}  // namespace

std::optional<std::string> why_not_lowered(const Graph& graph, const Node& node, const EngineOptions& options) {
  const auto fits_int = [&](ValueId id) {
    constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
    const Shape& shape = graph.value(id).desc.shape;
    if (graph.value(id).constant || shape.rank() < 4) return true;
    return shape[2] * shape[3] <= kMaxInt / options.max_batch && shape.elements() <= kMaxInt;
  };
  for (const ValueId id : node.inputs) {
    if (id != kNoValue && !fits_int(id))
      return "the input is too large for a batch of " + std::to_string(options.max_batch);
  }
  if (!fits_int(node.output)) return "the output is too large for a batch of " + std::to_string(options.max_batch);
  if (std::holds_alternative<Transpose>(node.op) && graph.value(node.output).desc.shape.rank() > 4) {
    return "Transpose of more than 4 axes has no kernel";
  }
  return std::nullopt;
}

CudaPlan lower(const Graph& graph, const EngineOptions& options, GpuTraits gpu) {
  return Lowering(graph, options, gpu).run();
}

}  // namespace mobicuda
