#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobicuda/graph.h>

#include "kernels/common/launch.h"
#include "kernels/streaming/concat.h"
#include "kernels/streaming/layout_transform.h"
#include "kernels/streaming/multiply.h"
#include "plan/choose_variant.h"
#include "plan/recorded_choices.h"
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

inline bool is_pointwise(const Conv2d& op, const Shape& weight) {
  return weight[2] == 1 && weight[3] == 1 && op.strides == std::array<std::int64_t, 2>{1, 1} && !op.pads.any() &&
         op.groups == 1;
}

inline bool is_depthwise(const Conv2d& op, const Shape& weight) {
  return op.groups == weight[0] && weight[1] == 1 && op.groups > 1;
}

/// A transposition with the axes that stay together joined, for one picture; nothing where more than four are left.
std::optional<kernels::TransposeParams> transpose_params(const Shape& x, const Transpose& op);

/// How `node` multiplies, for one picture.
kernels::MultiplyParams multiply_params(const Graph& graph, const Node& node, const Mul& op);

/// What a network is lowered with, where it is not made now. All of it null: choices are made, weights are packed.
struct LoweringSource {
  const std::vector<SavedChoice>* choices = nullptr;
  const SavedEngine* saved = nullptr;           ///< its packed weights
  std::shared_ptr<const DeviceBuffer> weights;  ///< packed in the same order, of the same sizes, on the device
};

/// Builds the plan node by node. Values are mapped to buffers; a Reshape only renames its input's buffer. One of run()
/// and choose_layers() is called, once.
class Lowering {
 public:
  Lowering(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu, LoweringSource source)
      : graph_(graph),
        options_(options),
        source_(std::move(source)),
        chooser_(options, gpu, source_.choices),
        packs_(source_.saved == nullptr && source_.weights == nullptr),
        elem_(elem_of(options.precision)),
        storage_(graph.values().size()) {
    if (source_.saved != nullptr) replay_.emplace(*source_.saved);
  }

  CudaPlan run();
  /// Only the choices: packs no weights, and leaves the device's memory as it is.
  ChosenLayers choose_layers();

 private:
  struct Storage {
    int buffer = kNoBuffer;
    Elem elem = Elem::F32;
    int first = 0;  ///< channel of a wider value's pixels, of which this is a slice
    int pitch = 0;  ///< that value's channels; 0: dense

    void* in(const CudaStepContext& context) const {
      return static_cast<std::byte*>(context.buffers[buffer]) + static_cast<std::size_t>(first) * size_of(elem);
    }
  };

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

  // A weight or bias before upload: its place in the blob. Steps read the address through `weights_`.
  struct Packed {
    std::int64_t offset = -1;
    std::int64_t bytes = 0;
  };

  /// Makes all choices and steps.
  void lower_nodes();

  // ---- values and buffers ----

  const Shape& shape(ValueId id) const { return graph_.value(id).desc.shape; }
  Storage& storage_of(ValueId id) { return storage_.at(static_cast<std::size_t>(id)); }

  std::int64_t picture_bytes(ValueId id, Elem elem) const {
    return shape(id).elements() * static_cast<std::int64_t>(size_of(elem));
  }

  int add_buffer(CudaBuffer::Place place, std::int64_t bytes_a_picture);

  // Whether the kernel that makes this value may write the caller's float output itself.
  bool is_final(ValueId id) const;

  Storage make_output(const Node& node, bool can_write_float);

  /// The same for kernels that write pixels apart: the value's slice where it has one.
  Storage make_rows(const Node& node, bool can_write_float);

  // The network's float input, for kernels that read elem_ only.
  Storage read_input(ValueId id);
  /// The same for kernels that read pixels apart.
  Storage read_rows(ValueId id);

  void place_joined();
  void find_prefix(const Node& concat);
  bool can_be_placed(ValueId id, int first, int pitch) const;
  bool writes_rows(const Node& node, const Conv2d& conv, int pitch) const;
  bool written_by_rows(ValueId id, int pitch) const;
  bool read_by_rows(ValueId id) const;

  /// Pictures in bytes become floats in a first step, unless all kernels that read them take bytes.
  void convert_pictures();
  /// Whether the node is a convolution that takes bytes.
  bool reads_pictures(const Node& node) const;
  template <class Params>
  void read_pictures(Params& params) const {
    std::copy(options_.picture_input->scale.begin(), options_.picture_input->scale.end(), params.scale);
    std::copy(options_.picture_input->shift.begin(), options_.picture_input->shift.end(), params.shift);
  }

  void add_conversion(const std::string& name, const Shape& value_shape, Storage from, Storage to);
  void lower_node(const Node& node);

  void write_output();

  void place_buffers();

  // ---- steps and weights ----

  template <class Enqueue>
  void add_step(LayerInfo info, const std::vector<int>& buffers, Enqueue enqueue) {
    const int step = static_cast<int>(plan_.steps.size());
    for (const int buffer : buffers) {
      if (buffer == kNoBuffer) continue;
      Life& life = lives_[static_cast<std::size_t>(buffer)];
      life.first_step = std::min(life.first_step, step);
      life.last_step = std::max(life.last_step, step);
    }
    plan_.steps.push_back({std::move(info), std::move(enqueue)});
  }

  /// The last step has finished this value: it can be looked at there.
  void show(ValueId id);

  LayerInfo describe(const Node& node, std::string kernel, std::string reason = {}) const;

  std::span<const float> floats(ValueId id) const { return graph_.value(id).constant->data<float>(); }

  /// Bytes that `fill` writes, or the saved engine's. Only `fill` may read constants: a saved graph has none.
  template <class Fill>
  Packed pack_bytes(std::int64_t bytes, Fill&& fill) {
    pieces_.push_back(bytes);
    if (replay_) return {replay_->next(bytes), bytes};
    if (!packs_) return {skip(bytes), bytes};
    std::byte* host = nullptr;
    const std::int64_t offset = blob_.add(bytes, &host);
    fill(host);
    return {offset, bytes};
  }

  template <class Pack>
  Packed pack(const Node& node, ValueId weight, std::size_t bytes, Pack&& pack_into) {
    return pack_bytes(static_cast<std::int64_t>(bytes), [&](std::byte* host) {
      if (elem_ == Elem::F16) require_half_range(node, weight);
      pack_into(floats(weight).data(), host);
    });
  }

  /// Each element `repeat` times.
  Packed pack_floats(ValueId id, std::int64_t repeat = 1);

  void require_half_range(const Node& node, ValueId weight) const;

  /// Where a piece lies that is packed already.
  std::int64_t skip(std::int64_t bytes);
  std::shared_ptr<const DeviceBuffer> weights_on_device() const;
  void upload_weights();
  void keep_recipe();

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
  auto choose(const Node& node, const Params& params) {
    if constexpr (std::is_same_v<Params, kernels::GemmParams>) {
      if (const auto found = projects_.find(&node); found != projects_.end()) return found->second;
    }
    try {
      return chooser_.choose(node.origin.label(), params);
    } catch (const Error& error) {
      throw error.inside(node.origin.describe());
    }
  }

  // ---- inverted residual blocks, heads: lower_blocks.cpp, lower_heads.cpp ----

  /// [pointwise ->] depthwise 3x3 -> pointwise, each the only reader of the one before.
  struct Block {
    const Node* expand = nullptr;  ///< absent in the first block of MobileNetV2
    const Node* depthwise = nullptr;
    const Node* project = nullptr;
    ChosenBlock chosen;
  };

  void find_blocks();
  /// A pointwise convolution whose sole reader is a GlobalAveragePool: one step where that is faster.
  void find_heads();
  std::optional<Block> block_around(const Node& depthwise) const;
  const Node* sole_reader(ValueId id) const;
  kernels::InvertedResidualParams block_params(const Block& block) const;
  kernels::ExpandDepthwiseParams expand_depthwise_params(const Block& block) const;
  ChosenBlock choose_form(const Block& block);
  LayerInfo describe_block(std::initializer_list<const Node*> nodes, std::string kernel, std::string reason) const;
  /// Nodes that could have been one step are several: each tells why.
  void keep_apart(std::initializer_list<const Node*> nodes, const std::string& reason);
  /// The kernels of several layers clip; where one has another activation, the layers are kept apart.
  bool only_clips(std::initializer_list<const Node*> convolutions);
  void lower_block(const Block& block);
  void lower_inverted_residual(const Block& block);
  void lower_expand_depthwise(const Block& block);

  struct Head {
    const Node* conv = nullptr;
    kernels::PointwisePoolVariant variant{};
    kernels::PointwisePoolParams params;
    std::string reason;
  };
  void lower_head(const Node& pool, const Head& head);

  // ---- the first convolution with the block after it: lower_stem.cpp ----

  struct StemBlock {
    const Node* stem = nullptr;
    Block block;
    kernels::StemBlockVariant variant{};
    kernels::StemBlockParams params;
    std::string reason;
  };

  void find_stem_block();
  std::optional<StemBlock> stem_block_before(const Block& block);
  void lower_stem_block(const StemBlock& stem);

  // ---- mean, two products and gates: lower_squeeze.cpp ----

  struct SqueezeExcite {
    ValueId x = kNoValue;
    const Node* pool = nullptr;
    const Node* reduce = nullptr;
    const Node* expand = nullptr;
    kernels::SqueezeExciteVariant variant{};
    kernels::SqueezeExciteParams params;
    std::string reason;
  };

  void find_squeeze_excites();
  std::optional<SqueezeExcite> squeeze_excite_before(const Node& mul) const;
  void lower_squeeze_excite(const Node& mul, const SqueezeExcite& block);

  // ---- operations: lower_convolutions.cpp, lower_branches.cpp, lower_others.cpp ----

  void lower(const Node& node, const Conv2d& op);
  void lower(const Node& node, const Gemm& op);
  /// Whether conv2d runs this pointwise convolution: it reads dense pixels in elem_ and writes elem_.
  bool runs_in_conv2d(const Node& node, const Conv2d& op);
  void lower_gemm(const Node& node, int rows_a_picture, ValueId residual_id, const Activation& activation);
  kernels::GemmParams gemm_params(const Node& node, int rows_a_picture, ValueId residual_id,
                                  const Activation& activation) const;
  void lower_depthwise(const Node& node, const Conv2d& op);
  void lower_conv2d(const Node& node, const Conv2d& op);
  kernels::Conv2dParams conv2d_params(const Node& node, const Conv2d& op) const;
  Storage conv2d_input(ValueId source, kernels::Conv2dParams& params);
  bool read_by_conv2d_only(ValueId id) const;
  void lower(const Node& node, const LayoutTransform& op);
  void lower(const Node& node, const Add& op);
  void add_addition(LayerInfo info, Storage a, Storage b, Storage y, const Shape& picture,
                    const Activation& activation);
  void lower(const Node& node, const Mul& op);
  void lower(const Node& node, const Unary& op);
  void lower(const Node& node, const LocalResponseNorm& op);
  void lower(const Node& node, const Concat& op);
  void add_copies(const Node& node, kernels::ConcatParams params, std::int64_t rows, std::vector<Storage> sources,
                  Storage y);
  void lower(const Node& node, const Slice& op);
  void lower(const Node& node, const Clip& op);
  void lower(const Node& node, const ScaleShift& op);
  void lower(const Node& node, const Pool2d& op);
  void lower(const Node& node, const GlobalAveragePool&);
  void lower(const Node& node, const Softmax&);
  void lower(const Node& node, const Reshape&);
  void lower(const Node& node, const Transpose& op);
  void lower(const Node& node, const Pad& op);
  void lower(const Node& node, const Identity&);

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
  LoweringSource source_;
  std::optional<WeightReplay> replay_;
  RecordedChoices chooser_;
  bool packs_;
  std::int64_t skipped_ = 0;  ///< bytes of weights that are not packed, where that is
  Elem elem_;
  std::vector<Storage> storage_;
  Storage input_;          ///< the caller's floats or bytes; or floats made of these
  bool pictures_ = false;  ///< input_ is bytes
  std::map<ValueId, Place> places_;
  std::vector<Life> lives_;
  std::map<const Node*, Block> blocks_;                   ///< by their last node, where they are lowered
  std::map<const Node*, Head> heads_;                     ///< by their pool
  std::map<const Node*, SqueezeExcite> squeeze_excites_;  ///< by their product
  std::optional<StemBlock> stem_block_;
  std::map<const Node*, std::string> kept_apart_;                 ///< why
  std::map<const Node*, Chosen<kernels::GemmVariant>> projects_;  ///< chosen with their block
  std::set<const Node*> in_blocks_;  ///< nodes that a block, a head, a gate or the stem block lowers
  CudaPlan plan_;
  WeightBlob blob_;
  std::vector<std::int64_t> pieces_;  ///< SavedEngine::pieces
  std::shared_ptr<const std::byte*> weights_ = std::make_shared<const std::byte*>(nullptr);
};

}  // namespace mobicuda
