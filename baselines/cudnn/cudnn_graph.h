#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cudnn.h>

#include "cudnn/conv_problem.h"
#include "cudnn/cudnn_check.h"

namespace mobicuda::cudnn {

/// One descriptor of cuDNN's graph API. Move-only.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  cudnnBackendDescriptor_t get() const noexcept { return handle_; }
  /// Throws Error when cuDNN refuses the value.
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set_raw(name, type, 1, &value);
  }
  template <class T>
  void set_array(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
    set_raw(name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  /// Throws Error when the description as a whole is not supported.
  void finalize();
  /// Fills `values` and returns how many there were.
  template <class T>
  std::int64_t get_array(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         std::span<T> values) const {
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(handle_, name, type, static_cast<std::int64_t>(values.size()), &count,
                                   values.empty() ? nullptr : values.data()),
          "reading an attribute of a graph descriptor");
    return count;
  }

 private:
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
               const void* values);

  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// An engine with its knobs, as the heuristics propose it.
struct EngineConfig {
  Descriptor descriptor;
  std::int64_t engine = 0;
  bool compiled_at_run_time = false;  ///< building it takes a good part of a second
  bool needs_probe = false;           ///< its notes leave open whether the problem's precision allows it
  std::string name;                   ///< engine number and knobs, the same for the same settings
};

/// How one operation graph states a layer. cuDNN has other engines for a clipped ReLU than for a ReLU
/// followed by a minimum, although both mean the same.
enum class GraphForm : std::uint8_t {
  Bare,      ///< the convolution alone
  Composed,  ///< the whole layer, its activation made of simpler operations: ReLU6 as min(relu(x), 6)
  Native,    ///< the whole layer, its activation as the one operation that cuDNN has for it
};

/// The forms that state a layer: Bare alone for a clip that is no ReLU, with or without bound.
std::vector<GraphForm> graph_forms(const ConvProblem& problem);

/// Floats that every execution passes by value, and their identities.
using Scalars = std::vector<std::pair<std::int64_t, float>>;

/// A convolution layer as an operation graph of cuDNN.
class ConvGraph {
 public:
  /// Throws Error(unsupported) when cuDNN does not take the graph.
  ConvGraph(std::shared_ptr<const Handles> handles, const ConvProblem& problem, GraphForm form);

  /// The engine configurations of one heuristic, best guess first, without those whose arithmetic the
  /// problem's precision forbids and those that may never end; empty when the heuristic has none.
  std::vector<EngineConfig> propose(cudnnBackendHeurMode_t mode) const;

  /// The name of the kernel that build() makes of a configuration: equal for equal kernels.
  std::string kernel_name(const EngineConfig& config) const;

  /// Throws Error(unsupported) when the engine turns out not to run this graph or wants too much scratch.
  std::shared_ptr<const ConvKernel> build(const EngineConfig& config) const;

 private:
  std::shared_ptr<const Handles> handles_;  // the descriptors refer to it
  ConvProblem problem_;
  GraphForm form_;
  std::shared_ptr<std::vector<Descriptor>> parts_;  // tensors and operations; shared with the kernels
  Scalars scalars_;
  std::shared_ptr<Descriptor> graph_;
};

}  // namespace mobicuda::cudnn
