#pragma once

#include <string_view>
#include <vector>

#include "kernels/common/launch.h"
#include "layer_shapes.h"
#include "registry.h"

namespace mobicuda::bench {

/// What to register benchmarks for. Lives as long as they do.
struct Selection {
  std::vector<Layer> layers;
  std::vector<int> batches;
  std::vector<kernels::Elem> elems;
  Registry* registry = nullptr;  ///< takes them
};

/// The benchmarks of one kernel: an object in <kernel>_bench.cpp puts them on a list before main() starts.
class Benchmarks {
 public:
  using Register = void (*)(const Selection&);

  /// `compared`: register_cudnn() has benchmarks of the same layers.
  Benchmarks(std::string_view kernel, Register register_all, bool compared);

  std::string_view kernel() const { return kernel_; }
  bool compared() const { return compared_; }
  void add(const Selection& selection) const { register_all_(selection); }

  /// Of all kernels, by name.
  static std::vector<const Benchmarks*> all();

 private:
  static std::vector<const Benchmarks*>& list();

  std::string_view kernel_;
  Register register_all_;
  bool compared_;
};

/// Whether the build has cuDNN.
bool has_cudnn();
/// cuDNN and cuBLASLt on the same layers; nothing without cuDNN.
void register_cudnn(const Selection& selection);

}  // namespace mobicuda::bench
