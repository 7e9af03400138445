#include "cudnn/plan_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cudnn/tensor_formats.h"
#include "graph/memory_planner.h"

namespace mobicuda::cudnn {
namespace {

// True when a tensor's elements lie in the same order in both layouts.
bool same_order(const Shape& shape, Layout a, Layout b) {
  return a == b || shape.rank() != 4 || shape[1] == 1 || shape[2] * shape[3] == 1;
}

Shape with_channels(const Shape& shape, std::int64_t channels) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[1] = channels;
  return Shape(dims);
}

std::int64_t bytes_of(const Shape& shape, DType dtype) { return checked_multiply(shape.elements(), size_of(dtype)); }

}  // namespace

PlanBuilder::PlanBuilder(const Graph& graph, const EngineOptions& options, Layout layout, ConvSearch& search)
    : graph_(graph),
      options_(options),
      layout_(layout),
      search_(search),
      values_(graph.values().size()),
      parts_(graph.values().size()) {
  const TensorDesc& input = graph.input_desc();
  const Shape shape = with_batch(input.shape);
  // With images of bytes the caller's buffer is in front of this one.
  const int buffer = add_buffer(bytes_of(shape, DType::F32),
                                options.picture_input ? CudaBuffer::Place::Arena : CudaBuffer::Place::Input);
  values_[static_cast<std::size_t>(graph.input())] = Stored{{buffer}, DType::F32, input.layout, shape};
  output_buffer_ = add_buffer(bytes_of(with_batch(graph.output_desc().shape), DType::F32), CudaBuffer::Place::Output);
  place_concats();
}

CudaNetwork PlanBuilder::build() {
  if (options_.picture_input) normalize_pictures();
  for (const Node& node : graph_.nodes()) {
    const std::size_t before = steps_.size();
    std::visit([&](const auto& op) { emit(*this, node, op); }, node.op);
    if (steps_.size() > before) show(node);
  }
  return finish();
}

CudaNetwork PlanBuilder::finish() {
  const Stored& last = stored(graph_.output());
  if (last.place.buffer != output_buffer_) {
    add_conversion(last, {{output_buffer_}, DType::F32, graph_.output_desc().layout, last.shape}, "output");
  }
  CudaPlan plan;
  plan.batch = options_.max_batch;
  std::vector<BufferRequest> requests;
  for (const Buffer& buffer : buffers_) {
    if (buffer.place == CudaBuffer::Place::Arena) {
      requests.push_back({buffer.bytes, buffer.first_step, buffer.last_step});
    }
  }
  const MemoryPlan memory = plan_memory(requests);
  std::size_t next = 0;
  for (const Buffer& buffer : buffers_) {
    const bool in_arena = buffer.place == CudaBuffer::Place::Arena;
    plan.buffers.push_back({buffer.place, in_arena ? memory.offsets[next++] : 0, buffer.bytes});
  }
  plan.steps = std::move(steps_);
  plan.arena_bytes = memory.arena_bytes;
  CudaNetwork network;
  network.plans.push_back(std::move(plan));
  network.workspace_bytes = workspace_bytes_;
  network.weight_bytes = weights_.bytes();
  network.keep_alive.push_back(weights_.upload());
  network.take_turn = take_turn;
  network.make_session_state = [](cudaStream_t stream) { return std::make_shared<Handles>(stream); };
  network.min_batch = options_.max_batch;
  return network;
}

// ---- buffers and steps ---------------------------------------------------------------------------

Shape PlanBuilder::with_batch(const Shape& picture) const {
  std::vector<std::int64_t> dims(picture.dims().begin(), picture.dims().end());
  dims[0] = options_.max_batch;
  return Shape(dims);
}

int PlanBuilder::add_buffer(std::int64_t bytes, CudaBuffer::Place place) {
  buffers_.push_back({place, bytes, static_cast<int>(steps_.size()), static_cast<int>(steps_.size())});
  return static_cast<int>(buffers_.size()) - 1;
}

void PlanBuilder::add_step(LayerInfo info, std::initializer_list<int> buffers, Enqueue enqueue) {
  const int step = static_cast<int>(steps_.size());
  for (const int id : buffers) {
    Buffer& buffer = buffers_[static_cast<std::size_t>(id)];
    buffer.first_step = std::min(buffer.first_step, step);
    buffer.last_step = std::max(buffer.last_step, step);
  }
  steps_.push_back({std::move(info), [enqueue = std::move(enqueue)](const CudaStepContext& context) {
                      Handles& handles = *static_cast<Handles*>(context.session_state);
                      if (const cudaError_t status = handles.bind(context.stream); status != cudaSuccess) return status;
                      return enqueue(context, handles);
                    }});
}

LayerInfo PlanBuilder::layer_info(const Node& node, std::string kernel) const {
  LayerInfo info;
  info.name = node.origin.label();
  info.kernel = std::move(kernel);
  info.output = graph_.value(node.output).desc.shape;
  return info;
}

// ---- formats -------------------------------------------------------------------------------------

const Stored& PlanBuilder::stored(ValueId id) const {
  const auto& value = values_[static_cast<std::size_t>(id)];
  if (!value) {
    throw Error(ErrorCode::internal, "value '" + graph_.value(id).name + "'", "is read before it is computed");
  }
  return *value;
}

void PlanBuilder::set_stored(const Node& node, const Stored& value) {
  values_[static_cast<std::size_t>(node.output)] = value;
}

void PlanBuilder::show(const Node& node) {
  CudaStep& step = steps_.back();
  const Value& value = graph_.value(node.output);
  if (step.info.output != value.desc.shape) return;
  const Stored& where = stored(node.output);
  step.info.value = value.name;
  step.result = {where.place.buffer, where.place.offset, where.dtype, where.layout, where.pitch};
}

Stored PlanBuilder::new_output(const Node& node, DType dtype) {
  const TensorDesc& desc = graph_.value(node.output).desc;
  Stored result{{}, dtype, layout_for(desc.shape), with_batch(desc.shape)};
  if (const std::optional<Part>& where = part(node.output)) {
    int& whole = wholes_[static_cast<std::size_t>(where->whole)];
    if (whole < 0) whole = add_buffer(bytes_of(with_channels(result.shape, where->pitch), dtype));
    result.place = {whole, where->offset * size_of(dtype)};
    result.pitch = pitch_of(node.output);
    set_stored(node, result);
    return result;
  }
  const bool is_last =
      node.output == graph_.output() && dtype == DType::F32 && same_order(result.shape, result.layout, desc.layout);
  result.place.buffer = is_last ? output_buffer_ : add_buffer(bytes_of(result.shape, dtype));
  set_stored(node, result);
  return result;
}

void PlanBuilder::normalize_pictures() {
  const Stored& input = stored(graph_.input());
  const int bytes = add_buffer(input.shape.elements(), CudaBuffer::Place::Input);
  PictureShape shape;
  shape.n = options_.max_batch;
  shape.pixels = input.shape[2] * input.shape[3];
  shape.channels_last = input.layout == Layout::NHWC;
  std::copy(options_.picture_input->scale.begin(), options_.picture_input->scale.end(), shape.scale);
  std::copy(options_.picture_input->shift.begin(), options_.picture_input->shift.end(), shape.shift);
  LayerInfo info;
  info.name = "pictures";
  info.kernel = "elementwise/normalize";
  info.output = graph_.input_desc().shape;
  info.activation_bytes = info.output.elements() * (1 + size_of(DType::F32));
  add_step(std::move(info), {bytes, input.place.buffer},
           [shape, bytes, floats = input.place.buffer](const CudaStepContext& c, const Handles&) {
             return normalize(shape, static_cast<const std::uint8_t*>(c.buffers[bytes]),
                              static_cast<float*>(c.buffers[floats]), c.stream);
           });
}

Stored PlanBuilder::in_plan_format(const Stored& value, std::string_view name) {
  const std::int64_t channels = value.shape.rank() > 1 ? value.shape[1] : 1;
  return convert(value, element(), layout_for(value.shape), channels, name);
}

Stored PlanBuilder::in_plan_pitch(const Stored& value, std::string_view name) {
  const bool as_wanted = value.pitch != 0 && value.dtype == element() && value.layout == layout_for(value.shape);
  return as_wanted ? value : in_plan_format(value, name);
}

Stored PlanBuilder::convert(const Stored& from, DType dtype, Layout layout, std::int64_t channels,
                            std::string_view name) {
  const bool same_channels = from.shape.rank() < 2 || from.shape[1] == channels;
  Stored to{{}, dtype, layout, same_channels ? from.shape : with_channels(from.shape, channels)};
  const bool same_format = same_channels && from.dtype == dtype && same_order(from.shape, from.layout, layout);
  if (same_format && from.pitch == 0) {
    to.place = from.place;
    return to;
  }
  for (const auto& [source, result] : converted_) {
    Stored wanted = to;
    wanted.place = result.place;
    if (source == from && wanted == result) return result;
  }
  to.place.buffer = add_buffer(bytes_of(to.shape, dtype));
  add_conversion(from, to, name);
  converted_.emplace_back(from, to);
  return to;
}

void PlanBuilder::add_conversion(const Stored& from, const Stored& to, std::string_view name) {
  LayerInfo info;
  info.name = std::string(name);
  info.output = graph_.input_desc().shape;
  if (to.shape.rank() > 0) {
    std::vector<std::int64_t> picture(to.shape.dims().begin(), to.shape.dims().end());
    picture[0] = 1;
    info.output = Shape(picture);
  }
  info.activation_bytes =
      (bytes_of(from.shape, from.dtype) + bytes_of(to.shape, to.dtype)) / std::max<std::int64_t>(options_.max_batch, 1);
  if ((from.pitch != 0 || to.pitch != 0) && from.dtype == to.dtype && from.layout == to.layout) {
    const std::int64_t size = size_of(from.dtype);
    const std::int64_t c = from.shape[1];
    const auto pitch = [&](const Stored& value) { return (value.pitch == 0 ? c : value.pitch) * size; };
    return add_row_copy(std::move(info), {from.shape.elements() / c, c * size, pitch(from), pitch(to)}, from.place,
                        to.place);
  }
  const Place source = from.place;
  const Place target = to.place;
  const bool channels_last = to.shape.rank() == 4 && to.layout == Layout::NHWC;
  if (channels_last && from.layout == Layout::NCHW && from.dtype == DType::F32) {
    info.kernel = "elementwise/interleave";
    const TensorShape shape{to.shape[0], to.shape[1], to.shape[2], to.shape[3], true, element_of(to.dtype)};
    add_step(std::move(info), {source.buffer, target.buffer},
             [=, channels = from.shape[1]](const CudaStepContext& c, const Handles&) {
               return interleave(channels, shape, static_cast<const float*>(source.in(c)), target.in(c), c.stream);
             });
    return;
  }
  info.kernel = "elementwise/strided_copy";
  StridedShape shape;
  const std::vector<std::int64_t> strides = strides_of(from.shape, from.layout, from.pitch);
  for (const std::size_t axis : memory_order(to.shape, to.layout)) {
    shape.extents[shape.rank] = to.shape[axis];
    shape.x_strides[shape.rank++] = strides[axis];
  }
  add_step(std::move(info), {source.buffer, target.buffer},
           [=, x = element_of(from.dtype), y = element_of(to.dtype)](const CudaStepContext& c, const Handles&) {
             return strided_copy(shape, x, y, source.in(c), target.in(c), c.stream);
           });
}

void PlanBuilder::add_row_copy(LayerInfo info, const RowCopy& copy, Place from, Place to) {
  info.kernel = "elementwise/copy_rows";
  add_step(std::move(info), {from.buffer, to.buffer},
           [=](const CudaStepContext& c, const Handles&) { return copy_rows(copy, from.in(c), to.in(c), c.stream); });
}

}  // namespace mobicuda::cudnn
