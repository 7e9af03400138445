// What the families of conv2d in files of their own tell the dispatcher, conv2d.cu.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/conv2d/conv2d.h"

namespace mobicuda::kernels {

/// Pointers of a launch; bias, residual and second (x2) are null where there is none.
struct Conv2dBuffers {
  const void* x;
  const void* packed;
  const float* bias;
  const void* residual;
  const void* second;
  void* y;
};

/// One variant. The functions are called with sane parameters only: positive extents, whole groups, coordinates and
/// images that fit int.
struct Conv2dEntry {
  Conv2dVariant variant;
  std::string_view name;
  Conv2dTile tile;
  bool (*supports)(const Conv2dParams& params, const DeviceTraits& gpu);
  cudaError_t (*launch)(const Conv2dParams& params, const Conv2dBuffers& buffers, const Launch& where);
  bool on_tensor_cores = false;  ///< products of halves
  bool pools = false;            ///< with Conv2dParams::max_pool, and only so
  bool takes_second = false;     ///< runs parameters that have a second convolution too
};

// In the order of Conv2dVariant.
std::span<const Conv2dEntry> conv2d_simt_entries();
std::span<const Conv2dEntry> conv2d_mma_entries();
std::span<const Conv2dEntry> conv2d_wgmma_entries();
std::span<const Conv2dEntry> conv2d_grouped_entries();
std::span<const Conv2dEntry> conv2d_first_entries();
std::span<const Conv2dEntry> conv2d_split_entries();

}  // namespace mobicuda::kernels
