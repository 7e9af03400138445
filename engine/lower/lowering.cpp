#include "lower/lowering.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/memory_planner.h"
#include "kernels/streaming/layout_transform.h"
#include "lower/fusions.h"
#include "lower/ops.h"
#include "lower/value_bounds.h"

namespace mobicuda {

kernels::Activation as_kernel_activation(const Activation& activation) {
  if (activation.is_clip()) return as_clip(activation);
  static_assert(static_cast<int>(ActivationKind::Elu) == static_cast<int>(kernels::ActivationKind::Elu));
  return kernels::Activation(static_cast<kernels::ActivationKind>(activation.kind), activation.alpha);
}

Lowering::Lowering(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                   LoweringSource source)
    : graph_(graph),
      options_(options),
      source_(std::move(source)),
      chooser_(options, gpu, source_.choices),
      elem_(elem_of(options.precision)),
      storage_(graph.values().size()),
      fusions_(make_fusions()) {
  plan_.batch = options.max_batch;
}

Lowering::~Lowering() = default;

void Lowering::lower_nodes() {
  bytes_ = options_.picture_input.has_value();
  const std::int64_t input_bytes = bytes_ ? shape(graph_.input()).elements() : picture_bytes(graph_.input(), Elem::F32);
  input_ = {add_buffer(CudaBuffer::Place::Input, input_bytes), Elem::F32};
  for (const auto& fusion : fusions_) fusion->find(*this);
  if (bytes_) convert_pictures();
  storage_of(graph_.input()) = input_;
  place_joined();
  for (const Node& node : graph_.nodes()) {
    const std::size_t before = plan_.steps.size();
    lower_node(node);
    if (plan_.steps.size() > before) show(node.output);
  }
  chooser_.finish();
}

CudaPlan Lowering::run() {
  lower_nodes();
  write_output();
  place_buffers();
  bring_weights_ahead();
  return std::move(plan_);
}

ChosenLayers Lowering::choose_layers() {
  lower_nodes();
  return std::move(chooser_).take();
}

kernels::NextWeights Lowering::next_weights(const std::byte* base, const Packed& piece) {
  // A piece begins with a line, and the memory that pieces lie in ends with one.
  constexpr std::int64_t kLine = kernels::NextWeights::kLineBytes;
  return {base + piece.offset, static_cast<std::uint32_t>((piece.bytes + kLine - 1) / kLine)};
}

void Lowering::bring_weights_ahead() {
  // Activations take their share of L2, and what several multiprocessors read may lie there twice.
  constexpr std::size_t kStays = 2;
  std::int64_t bytes = 0;
  for (const auto& step : step_weights_) bytes += step->own.bytes;
  const auto stays = static_cast<std::int64_t>(rules().gpu().l2_bytes / kStays);
  if (stays == 0 || bytes <= stays) return;
  Packed next;
  for (auto step = step_weights_.rbegin(); step != step_weights_.rend(); ++step) {
    (*step)->next = next;
    if ((*step)->own.bytes == 0) continue;
    next = (*step)->own;
    next.bytes = std::min(next.bytes, stays);  // more at once would drive out what is needed earlier
  }
}

void lower(Lowering& to, const Node& node) {
  std::visit([&](const auto& op) { lower(to, node, op); }, node.op);
}

void Lowering::lower_node(const Node& node) {
  if (!is_claimed(&node)) {
    lower(*this, node);
    return;
  }
  for (const auto& fusion : fusions_) fusion->lower(*this, node);
}

float Lowering::split_bound(ValueId id) {
  constexpr double kRounding = 1.0 + 0x1p-10;  // of sums of up to 10,000 floats
  if (bounds_.empty()) bounds_ = value_bounds(graph_);
  return static_cast<float>(bounds_[static_cast<std::size_t>(id)] * kRounding);
}

bool Lowering::in_split_range(ValueId id) { return !chooses() || split_bound(id) <= kernels::kLargestSplit; }

const Node* Lowering::producer(ValueId id) const {
  const auto found = graph_.producer(id);
  return found ? &graph_.nodes()[*found] : nullptr;
}

const Node* Lowering::sole_reader(ValueId id) const {
  const auto readers = graph_.consumers(id);
  if (readers.size() != 1 || id == graph_.output()) return nullptr;
  return &graph_.nodes()[readers.front()];
}

void Lowering::keep_apart(const std::vector<const Node*>& nodes, const std::string& reason) {
  for (const Node* node : nodes) kept_apart_[node] = reason;
}

bool Lowering::only_clips(const std::vector<const Node*>& convolutions) {
  for (const Node* node : convolutions) {
    const Activation& activation = std::get<Conv2d>(node->op).activation;
    if (activation.is_clip()) continue;
    keep_apart(convolutions, to_string(activation) + " is not a clip");
    return false;
  }
  return true;
}

void Lowering::choose_with_block(const Node& node, ChosenPointwise chosen) {
  projects_.emplace(&node, std::move(chosen));
}

const ChosenPointwise* Lowering::chosen_with_block(const Node& node) const {
  const auto found = projects_.find(&node);
  return found == projects_.end() ? nullptr : &found->second;
}

int Lowering::add_buffer(CudaBuffer::Place place, std::int64_t bytes_a_picture) {
  plan_.buffers.push_back({place, 0, checked_multiply(bytes_a_picture, options_.max_batch)});
  lives_.emplace_back();
  return static_cast<int>(plan_.buffers.size() - 1);
}

bool Lowering::is_final(ValueId id) const {
  if (!graph_.consumers(id).empty() && id != graph_.output()) {
    const auto readers = graph_.consumers(id);
    if (readers.size() != 1) return false;
    const Node& reader = graph_.nodes()[readers.front()];
    return std::holds_alternative<Reshape>(reader.op) && is_final(reader.output);
  }
  return id == graph_.output() && graph_.consumers(id).empty();
}

Storage Lowering::make_output(const Node& node, bool can_write_float) {
  Storage storage;
  if (is_final(node.output) && (elem_ == Elem::F32 || can_write_float)) {
    storage = {add_buffer(CudaBuffer::Place::Output, picture_bytes(node.output, Elem::F32)), Elem::F32};
  } else {
    storage = {add_buffer(CudaBuffer::Place::Arena, picture_bytes(node.output, elem_)), elem_};
  }
  storage_of(node.output) = storage;
  return storage;
}

Storage Lowering::read_input(ValueId id) {
  const Storage storage = read_rows(id);
  if (storage.pitch != 0) {
    throw Error(ErrorCode::internal, graph_.value(id).name, "is a slice, but a kernel for dense values reads it");
  }
  return storage;
}

Storage Lowering::read_rows(ValueId id) {
  const Storage storage = storage_of(id);
  if (storage.elem == elem_) return storage;
  const Storage converted{add_buffer(CudaBuffer::Place::Arena, picture_bytes(id, elem_)), elem_};
  add_conversion("to_" + std::string(to_string(options_.precision)) + "(" + graph_.value(id).name + ")", shape(id),
                 storage, converted);
  storage_of(id) = converted;
  return converted;
}

Storage Lowering::read_floats(ValueId id) {
  const Storage storage = storage_of(id);
  if (storage.elem == Elem::F32) return storage;
  const Storage numbers = read_input(id);
  const Storage converted{add_buffer(CudaBuffer::Place::Arena, picture_bytes(id, Elem::F32)), Elem::F32};
  add_conversion("to_fp32(" + graph_.value(id).name + ")", shape(id), numbers, converted);
  return converted;
}

Storage Lowering::make_floats(const Node& node) {
  const auto place = is_final(node.output) ? CudaBuffer::Place::Output : CudaBuffer::Place::Arena;
  return storage_of(node.output) = {add_buffer(place, picture_bytes(node.output, Elem::F32)), Elem::F32};
}

Storage Lowering::make_bytes(const Node& node) {
  const Shape& picture = shape(node.output);
  Storage storage;
  storage.byte_pitch = byte_pitch_of(*this, node.output);
  const std::int64_t pixels = picture.elements() / picture[1];
  storage.buffer = add_buffer(CudaBuffer::Place::Arena, checked_multiply(pixels, storage.byte_pitch));
  storage_of(node.output) = storage;
  return storage;
}

void Lowering::convert_pictures() {
  const auto all_read_pictures = [&](ValueId id) {
    const auto readers = graph_.consumers(id);
    return id != graph_.output() && std::all_of(readers.begin(), readers.end(), [&](std::size_t reader) {
             const Node& node = graph_.nodes()[reader];
             return takes_bytes_.contains(&node) || reads_pictures(*this, node);
           });
  };
  const auto readers = graph_.consumers(graph_.input());
  const bool in_place =
      graph_.input() != graph_.output() && std::all_of(readers.begin(), readers.end(), [&](std::size_t reader) {
        const Node& node = graph_.nodes()[reader];
        const auto* transform = std::get_if<LayoutTransform>(&node.op);
        if (transform == nullptr) return reads_pictures(*this, node);
        return transform->to == Layout::NHWC && all_read_pictures(node.output);
      });
  if (in_place) return;
  const Storage bytes = input_;
  const Shape& picture = shape(graph_.input());
  kernels::ConvertPicturesParams params;
  params.to_nhwc = graph_.input_desc().layout == Layout::NHWC;
  params.c = as_int(picture[1]);
  params.h = as_int(picture[2]);
  params.w = as_int(picture[3]);
  set_scale(params);
  input_ = {add_buffer(CudaBuffer::Place::Arena, picture_bytes(graph_.input(), Elem::F32)), Elem::F32};
  bytes_ = false;
  LayerInfo info;
  info.name = "pictures(" + graph_.value(graph_.input()).name + ")";
  info.kernel = "layout_transform/convert_pictures";
  info.output = picture;
  info.activation_bytes = picture.elements() * static_cast<std::int64_t>(1 + sizeof(float));
  add_streaming(std::move(info), bytes, input_, params, kernels::convert_pictures);
}

void Lowering::add_conversion(const std::string& name, const Shape& value_shape, Storage from, Storage to) {
  kernels::LayoutTransformParams params;
  params.from = from.elem;
  params.to = to.elem;
  params.c = as_int(value_shape.elements());
  params.h = params.w = 1;
  LayerInfo info{name, "layout_transform/convert", value_shape, 0, 0, 0};
  info.activation_bytes = value_shape.elements() * static_cast<std::int64_t>(size_of(from.elem) + size_of(to.elem));
  add_streaming(std::move(info), from, to, params, kernels::layout_transform);
}

void Lowering::write_output() {
  const Storage last = storage_of(graph_.output());
  if (plan_.buffers[static_cast<std::size_t>(last.buffer)].place == CudaBuffer::Place::Output) return;
  const Storage out{add_buffer(CudaBuffer::Place::Output, picture_bytes(graph_.output(), Elem::F32)), Elem::F32};
  add_conversion("to_fp32(" + graph_.value(graph_.output()).name + ")", shape(graph_.output()), last, out);
}

void Lowering::place_buffers() {
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

void Lowering::show(ValueId id) {
  CudaStep& step = plan_.steps.back();
  const Storage& storage = storage_of(id);
  const Value& value = graph_.value(id);
  if (storage.buffer == kNoBuffer || step.info.output != value.desc.shape) return;
  if (storage.byte_pitch != 0) {
    const ByteQuantization bytes = byte_quantization(value.desc);
    step.info.value = value.name;
    step.result = {storage.buffer, 0, DType::I8, Layout::NHWC, storage.byte_pitch, {bytes.scale, bytes.zero_point}};
    return;
  }
  const DType dtype = storage.elem == Elem::F64 ? DType::F64 : storage.elem == Elem::F16 ? DType::F16 : DType::F32;
  step.info.value = value.name;
  step.result = {storage.buffer, storage.first * size_of(dtype), dtype, value.desc.layout, storage.pitch, {}};
}

LayerInfo Lowering::describe(const Node& node, std::string kernel, std::string reason) const {
  LayerInfo info;
  info.name = node.origin.label();
  info.kernel = std::move(kernel);
  info.reason = std::move(reason);
  if (const auto apart = kept_apart_.find(&node); apart != kept_apart_.end()) {
    info.reason += (info.reason.empty() ? "not fused: " : "; not fused: ") + apart->second;
  }
  info.output = shape(node.output);
  info.flops = flops_per_picture(graph_, node);
  const auto elem_bytes = static_cast<std::int64_t>(size_of(elem_));
  info.activation_bytes = info.output.elements() * elem_bytes;
  for (const ValueId id : node.inputs) {
    if (id != kNoValue && !graph_.value(id).constant) info.activation_bytes += shape(id).elements() * elem_bytes;
  }
  return info;
}

LayerInfo Lowering::describe(const std::vector<const Node*>& nodes, std::string kernel, std::string reason) const {
  LayerInfo info;
  info.kernel = std::move(kernel);
  info.reason = std::move(reason);
  const auto elem_bytes = static_cast<std::int64_t>(size_of(elem_));
  for (const Node* node : nodes) {
    info.name += (info.name.empty() ? "" : "+") + node->origin.label();
    info.flops += flops_per_picture(graph_, *node);
    info.output = shape(node->output);
    if (std::holds_alternative<Conv2d>(node->op) && node->inputs[Conv2d::kResidual] != kNoValue) {
      info.activation_bytes += info.output.elements() * elem_bytes;
    }
  }
  info.activation_bytes += (shape(nodes.front()->inputs[0]).elements() + info.output.elements()) * elem_bytes;
  return info;
}

std::vector<ValueId> Lowering::constants_of(const std::vector<const Node*>& convolutions) {
  std::vector<ValueId> constants;
  for (const Node* node : convolutions) {
    for (const std::size_t position : {Conv2d::kWeight, Conv2d::kBias}) {
      constants.push_back(node == nullptr ? kNoValue : node->inputs[position]);
    }
  }
  return constants;
}

const float* Lowering::constant_of(const Node* node, std::size_t position) const {
  if (node == nullptr || node->inputs[position] == kNoValue) return nullptr;
  if (position == Conv2d::kWeight && elem_ == Elem::F16) require_half_range(*node, node->inputs[position]);
  return floats(node->inputs[position]).data();
}

Packed Lowering::pack_floats(ValueId id, std::int64_t repeat) {
  if (id == kNoValue) return {};
  const std::int64_t bytes = checked_multiply(checked_multiply(shape(id).elements(), sizeof(float)), repeat);
  return pack_bytes("floats", {id}, bytes, [&](std::byte* host) {
    for (const float value : floats(id)) {
      for (std::int64_t i = 0; i < repeat; ++i, host += sizeof value) std::memcpy(host, &value, sizeof value);
    }
  });
}

void Lowering::require_half_range(const Node& node, ValueId weight) const {
  for (const float w : floats(weight)) {
    if (std::abs(w) > kLargestHalf) {
      throw Error(ErrorCode::unsupported, node.origin.describe(),
                  "weight " + std::to_string(w) + " of '" + graph_.value(weight).name + "' is beyond fp16's 65504",
                  "set EngineOptions::precision to Precision::Fp32");
    }
  }
}

}  // namespace mobicuda
