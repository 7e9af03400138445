#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <mobicuda/graph.h>

#include "choose/chooser.h"
#include "graph/op_functions.h"
#include "kernels/common/launch.h"
#include "lower/weight_pieces.h"
#include "runtime/cuda_engine.h"

namespace mobicuda {

using kernels::Elem;

inline constexpr int kNoBuffer = -1;
inline constexpr float kLargestHalf = 65504.0F;

inline Elem elem_of(Precision precision) {
  if (precision == Precision::Fp64) return Elem::F64;
  return precision == Precision::Fp16 ? Elem::F16 : Elem::F32;
}

inline int as_int(std::int64_t value) { return static_cast<int>(value); }  // shapes were checked by fits_int()

/// For the kernels of several layers, which clip only.
inline kernels::Clip as_clip(const Activation& activation) { return {activation.lo, activation.hi}; }
kernels::Activation as_kernel_activation(const Activation& activation);

inline kernels::Launch launch_of(const CudaStepContext& context) { return {context.stream, context.programmatic}; }

/// What a plan is lowered with besides its graph. All of it null: choices are made, and nothing is packed.
struct LoweringSource {
  const std::vector<SavedChoice>* choices = nullptr;  ///< made before
  WeightPieces* weights = nullptr;                    ///< of the engine
  std::shared_ptr<const std::byte* const> base;       ///< where they lie when steps run
};

/// Where a value lies while a plan runs.
struct Storage {
  int buffer = kNoBuffer;
  Elem elem = Elem::F32;
  int first = 0;  ///< channel of a wider value's pixels, of which this is a slice
  int pitch = 0;  ///< that value's channels; 0: dense
  /// Of a quantised value, which is int8 and NHWC whatever its layout: bytes from pixel to pixel. What is uint8 in the
  /// graph is less by 128, as is its zero point. 0: numbers in elem.
  int byte_pitch = 0;

  void* in(const CudaStepContext& context) const {
    if (buffer == kNoBuffer) return nullptr;
    return static_cast<std::byte*>(context.buffers[buffer]) + static_cast<std::size_t>(first) * size_of(elem);
  }
};

/// A packed weight or bias: its place among the engine's.
struct Packed {
  std::int64_t offset = -1;
  std::int64_t bytes = 0;
};

/// Address of packed data when a step runs; null for an absent one.
struct WeightPointer {
  std::shared_ptr<const std::byte* const> base;
  std::int64_t offset = -1;

  template <class T = void>
  const T* get() const {
    return offset < 0 ? nullptr : reinterpret_cast<const T*>(*base + offset);
  }
};

class Fusion;
class Lowering;

template <class T>
struct CustomOp {
  /// Stands in a file of ops/.
  friend void lower(Lowering& to, const Node& node, const T& op);
};

/// Builds a plan node by node: keeps values, buffers, weights and steps. What a step is of a node is up to the
/// functions in ops/, and to the fusions of fusions.h, which see to several nodes at once. Values are mapped to
/// buffers; a Reshape only renames its input's buffer. The plan is for EngineOptions::max_batch images. One of run()
/// and choose_layers() is called, once.
class Lowering : OpFunctions<CustomOp> {
 public:
  Lowering(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu, LoweringSource source);
  ~Lowering();
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  CudaPlan run();
  /// Only the choices.
  ChosenLayers choose_layers();

  // ---- what is lowered ----

  const Graph& graph() const { return graph_; }
  const EngineOptions& options() const { return options_; }
  Elem elem() const { return elem_; }
  /// Whether pointwise products may be split (Precision::Fp32Split).
  bool splits() const { return options_.precision == Precision::Fp32Split; }
  /// Whether the value's magnitude is at most kLargestSplit whatever the input, with room for rounding errors. True of
  /// all where choices were made before: they tell.
  bool in_split_range(ValueId id);
  /// Not where choices were made before.
  bool chooses() const { return source_.choices == nullptr; }
  /// The largest magnitude (value_bounds()), with that room. Where constants have their elements.
  float split_bound(ValueId id);
  int max_batch() const { return as_int(options_.max_batch); }
  const Shape& shape(ValueId id) const { return graph_.value(id).desc.shape; }
  std::span<const float> floats(ValueId id) const { return graph_.value(id).constant->data<float>(); }
  const Node* producer(ValueId id) const;
  /// The only reader of a value that is not the network's output; null where there is none.
  const Node* sole_reader(ValueId id) const;
  /// Whether the kernel that makes this value may write the caller's float output itself.
  bool is_final(ValueId id) const;

  Chooser& chooser() { return chooser_; }
  const Rules& rules() const { return chooser_.rules(); }
  /// Throws with the node's origin.
  template <class Params>
  Chosen<VariantOf<Params>> choose(const Node& node, const Params& params);

  // ---- nodes that fusions see to ----

  /// The fusion lowers the node, or leaves it to the last of its nodes.
  void claim(const Node* node) { claimed_.insert(node); }
  bool is_claimed(const Node* node) const { return claimed_.contains(node); }
  /// Nodes that could have been one step are several: each tells why.
  void keep_apart(const std::vector<const Node*>& nodes, const std::string& reason);
  /// The kernels of several layers clip; where one has another activation, the layers are kept apart.
  bool only_clips(const std::vector<const Node*>& convolutions);
  /// A pointwise convolution that stays a step of its own, but was chosen together with its block.
  void choose_with_block(const Node& node, ChosenPointwise chosen);
  /// Null where it was not.
  const ChosenPointwise* chosen_with_block(const Node& node) const;
  /// A claimed convolution of the network's input takes bytes.
  void take_bytes(const Node* node) { takes_bytes_.insert(node); }

  // ---- values and buffers ----

  Storage& storage_of(ValueId id) { return storage_.at(static_cast<std::size_t>(id)); }
  /// The caller's floats or bytes; or floats made of these.
  const Storage& input() const { return input_; }
  /// Whether input() is bytes.
  bool input_is_bytes() const { return bytes_; }
  /// Scale and shift of an input in bytes.
  template <class Params>
  void set_scale(Params& params) const {
    std::copy(options_.picture_input->scale.begin(), options_.picture_input->scale.end(), params.scale);
    std::copy(options_.picture_input->shift.begin(), options_.picture_input->shift.end(), params.shift);
  }

  Storage make_output(const Node& node, bool can_write_float);
  /// The same for kernels that write pixels apart: the value's slice where it has one.
  Storage make_rows(const Node& node, bool can_write_float);
  /// A dense value in elem(); converts the network's float input.
  Storage read_input(ValueId id);
  /// The same for kernels that read pixels apart.
  Storage read_rows(ValueId id);
  /// A dense value as floats; converts one in elem().
  Storage read_floats(ValueId id);
  /// For kernels that write floats at every precision.
  Storage make_floats(const Node& node);
  /// For kernels that write quantised values.
  Storage make_bytes(const Node& node);
  /// The pitch of the wider value of which this one is to be a slice; 0: none.
  int pitch_of(ValueId id) const;

  // ---- steps and weights ----

  template <class Enqueue>
  void add_step(LayerInfo info, const std::vector<int>& buffers, Enqueue enqueue);

  struct KernelStep {
    LayerInfo info;  ///< weight_bytes is filled in
    Storage x;
    std::vector<Packed> weights;  ///< as kernels::Operands has them
    Storage residual{};
    Storage y;
  };
  /// A step of a kernel with variants.
  template <class Params>
  void add_kernel(KernelStep step, VariantOf<Params> variant, const Params& params);

  /// A step of a kernel that takes only x and y, and as params.n the images of a run.
  template <class Params>
  void add_streaming(LayerInfo info, Storage x, Storage y, const Params& params,
                     cudaError_t (*kernel)(const Params&, const void*, void*, const kernels::Launch&)) {
    add_step(std::move(info), {x.buffer, y.buffer}, [params, kernel, x, y](const CudaStepContext& context) {
      auto p = params;
      p.n = as_int(context.n);
      return kernel(p, x.in(context), y.in(context), launch_of(context));
    });
  }

  /// The last step has finished this value: it can be looked at there. Of a node's output this is done behind its last
  /// step.
  void show(ValueId id);

  LayerInfo describe(const Node& node, std::string kernel, std::string reason = {}) const;
  /// Of a step of several nodes, in their order.
  LayerInfo describe(const std::vector<const Node*>& nodes, std::string kernel, std::string reason) const;

  /// Bytes that `fill` writes, or the saved engine's. Only `fill` may read constants: a saved graph has none. The bytes
  /// follow from `packing` (PieceKey) and the constants alone.
  template <class Fill>
  Packed pack_bytes(std::string packing, std::vector<ValueId> constants, std::int64_t bytes, Fill&& fill);
  /// A weight in elem(): pack_into(floats, packed).
  template <class Pack>
  Packed pack(std::string packing, const Node& node, ValueId weight, std::size_t bytes, Pack&& pack_into);
  /// Of a kernel that packs its own weights.
  template <class Params>
  static std::string packing_of(VariantOf<Params> variant, const Params& params);
  /// Inputs of nodes that are constants, as a PieceKey has them; nothing of a null node.
  static std::vector<ValueId> constants_of(const std::vector<const Node*>& convolutions);
  /// Each element `repeat` times; nothing for kNoValue.
  Packed pack_floats(ValueId id, std::int64_t repeat = 1);
  /// The constant of a node for a kernel of several layers, checked for half; null where it is absent. Inside of `fill`
  /// only.
  const float* constant_of(const Node* node, std::size_t position) const;
  WeightPointer pointer(const Packed& packed) const { return {source_.base, packed.offset}; }

 private:
  /// The largest piece that a step reads of weights, and that of the step behind it, where its kernel is to bring it
  /// into L2.
  struct StepWeights {
    Packed own, next;
  };
  static kernels::NextWeights next_weights(const std::byte* base, const Packed& piece);
  /// Where a plan's weights do not stay in L2 from one run to the next, each step is to bring the next one's there.
  void bring_weights_ahead();

  /// A value that is channels of another, see place_joined.cpp.
  struct Place {
    ValueId root = kNoValue;
    int first = 0;
    int pitch = 0;
  };

  struct Life {
    int first_step = std::numeric_limits<int>::max();
    int last_step = -1;
  };

  /// Makes all choices and steps.
  void lower_nodes();
  void lower_node(const Node& node);

  std::int64_t picture_bytes(ValueId id, Elem elem) const {
    return shape(id).elements() * static_cast<std::int64_t>(size_of(elem));
  }
  int add_buffer(CudaBuffer::Place place, std::int64_t bytes_a_picture);

  void place_joined();
  void find_prefix(const Node& concat);
  bool can_be_placed(ValueId id, int first, int pitch) const;
  bool writes_rows(const Node& node, const Conv2d& conv, int pitch) const;
  bool written_by_rows(ValueId id, int pitch) const;
  bool read_by_rows(ValueId id) const;

  /// Images in bytes become floats in a first step, unless all kernels that read them take bytes.
  void convert_pictures();
  void add_conversion(const std::string& name, const Shape& value_shape, Storage from, Storage to);
  void write_output();
  void place_buffers();

  void require_half_range(const Node& node, ValueId weight) const;

  const Graph& graph_;
  const EngineOptions& options_;
  std::vector<double> bounds_;  ///< value_bounds(), once they were asked for
  LoweringSource source_;
  Chooser chooser_;
  Elem elem_;
  std::vector<Storage> storage_;
  Storage input_;
  bool bytes_ = false;
  std::map<ValueId, Place> places_;
  std::vector<Life> lives_;
  std::vector<std::unique_ptr<Fusion>> fusions_;
  std::set<const Node*> claimed_;
  std::set<const Node*> takes_bytes_;
  std::map<const Node*, std::string> kept_apart_;           ///< why
  std::map<const Node*, ChosenPointwise> projects_;         ///< choose_with_block()
  std::vector<std::shared_ptr<StepWeights>> step_weights_;  ///< of the steps that have kernels with variants
  CudaPlan plan_;
};

template <class Params>
Chosen<VariantOf<Params>> Lowering::choose(const Node& node, const Params& params) {
  if constexpr (std::is_same_v<Params, kernels::GemmParams> || std::is_same_v<Params, kernels::Conv2dParams>) {
    const ChosenPointwise* chosen = chosen_with_block(node);
    if (chosen != nullptr) return std::get<Chosen<VariantOf<Params>>>(*chosen);
  }
  try {
    return chooser_.choose(node.origin.label(), params);
  } catch (const Error& error) {
    throw error.inside(node.origin.describe());
  }
}

template <class Enqueue>
void Lowering::add_step(LayerInfo info, const std::vector<int>& buffers, Enqueue enqueue) {
  const int step = static_cast<int>(plan_.steps.size());
  for (const int buffer : buffers) {
    if (buffer == kNoBuffer) continue;
    Life& life = lives_[static_cast<std::size_t>(buffer)];
    life.first_step = std::min(life.first_step, step);
    life.last_step = std::max(life.last_step, step);
  }
  plan_.steps.push_back({std::move(info), std::move(enqueue)});
}

template <class Params>
void Lowering::add_kernel(KernelStep step, VariantOf<Params> variant, const Params& params) {
  if (step.weights.size() > kernels::kMostWeights) {
    throw Error(ErrorCode::internal, step.info.name, "has too many weights");
  }
  std::vector<WeightPointer> weights;
  const auto reads = std::make_shared<StepWeights>();
  for (const Packed& packed : step.weights) {
    step.info.weight_bytes += packed.bytes;
    weights.push_back(pointer(packed));
    if (packed.bytes > reads->own.bytes) reads->own = packed;
  }
  step_weights_.push_back(reads);
  add_step(std::move(step.info), {step.x.buffer, step.residual.buffer, step.y.buffer},
           [params, variant, batch = max_batch(), weights = std::move(weights), x = step.x, residual = step.residual,
            y = step.y, base = source_.base, reads](const CudaStepContext& context) {
             const auto& kernel = kernels::kernel_of(params);
             const Params p = kernel.with_batch(params, as_int(context.n), batch);
             kernels::Operands operands{x.in(context), {}, residual.in(context), y.in(context)};
             for (std::size_t i = 0; i < weights.size(); ++i) operands.weights[i] = weights[i].get();
             kernels::Launch launch = launch_of(context);
             if (reads->next.bytes > 0) launch.next = next_weights(*base, reads->next);
             return kernel.launch(variant, p, operands, launch);
           });
}

template <class Fill>
Packed Lowering::pack_bytes(std::string packing, std::vector<ValueId> constants, std::int64_t bytes, Fill&& fill) {
  if (source_.weights == nullptr) return {0, bytes};
  return {source_.weights->offset_of({std::move(packing), std::move(constants), bytes}, std::forward<Fill>(fill)),
          bytes};
}

template <class Pack>
Packed Lowering::pack(std::string packing, const Node& node, ValueId weight, std::size_t bytes, Pack&& pack_into) {
  return pack_bytes(std::move(packing), {weight}, static_cast<std::int64_t>(bytes), [&](std::byte* host) {
    if (elem_ == Elem::F16) require_half_range(node, weight);
    pack_into(floats(weight).data(), host);
  });
}

template <class Params>
std::string Lowering::packing_of(VariantOf<Params> variant, const Params& params) {
  const auto& kernel = kernels::kernel_of(params);
  std::string packing(kernel.name);
  if (kernel.packing != nullptr) packing += '/' + std::string(kernel.packing(variant));
  return packing;
}

}  // namespace mobicuda
