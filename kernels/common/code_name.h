// Which device code a kernel needs that the library has not: an instance of one of its templates.
#pragma once

#include <string>

namespace mobicuda::kernels {

/// An instance of a kernel template of the library's device headers.
struct CodeName {
  std::string header;      ///< as included: "kernels/inverted_residual/cluster/kernel.cuh"
  std::string expression;  ///< C++ name: "mobicuda::kernels::inverted_cluster::cluster_kernel<...>"
  bool wgmma = false;      ///< has instructions of sm_90a alone

  friend auto operator<=>(const CodeName&, const CodeName&) = default;
};

}  // namespace mobicuda::kernels
