#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "report/document.h"

namespace mobicuda::bench::report {

/// Short names for tables of a network's layers or tensors. Whole ones may have hundreds of characters: a fused layer
/// is called by all its nodes, "a+b+c", and a node of PyTorch or TensorFlow by its whole path.
///
/// A name of at most `kLongestWhole` characters stays as it is. A longer one is made short in these steps:
///   1. Of each node the '/' in front is left out, and every part of the path that the next part repeats before a '.':
///      "/features/features.2/conv/conv.0/Conv" -> "features.2/conv.0/Conv". So is the "_output_0" of a tensor.
///   2. What the paths of all nodes of the network begin with is left out, in whole parts: "mobilenetv2_1.00_224/".
///   3. What the nodes of the name begin with, up to a '/', '.' or '_', is told once, in front of a colon:
///      "features.2/conv.0/Conv+features.2/conv.1/Clip" -> "features.2/conv: 0/Conv, 1/Clip".
///   4. The last '/' of each node becomes a blank: "features.2/conv: 0 Conv, 1 Clip".
/// "to_NHWC(a+b)" is made short between its brackets, "input of a+b" after "of". Where different names would become the
/// same, they stay whole.
class LayerNames {
 public:
  static constexpr std::size_t kLongestWhole = 32;

  /// `names` are all of the network.
  explicit LayerNames(const std::vector<std::string>& names);
  explicit LayerNames(const std::vector<Layer>& layers);

  /// The short form of one of them; any other name as it is.
  const std::string& shortened(const std::string& name) const;

 private:
  std::map<std::string, std::string> short_of_;
};

}  // namespace mobicuda::bench::report
