// What the variants of int8_conv2d in files of their own tell the dispatcher, int8_conv2d.cu.
#pragma once

#include <span>
#include <string_view>

#include "kernels/int8_conv2d/arguments.cuh"
#include "kernels/int8_conv2d/int8_conv2d.h"

namespace mobicuda::kernels {

/// One variant. The functions are called with sane parameters only: positive extents, whole groups, coordinates and
/// pixels that fit int.
struct Int8Conv2dEntry {
  Int8Conv2dVariant variant;
  std::string_view name;
  Int8Conv2dTile tile;
  bool (*supports)(const Int8Conv2dParams& params, const DeviceTraits& gpu);
  cudaError_t (*launch)(const Int8Conv2dParams& params, const int8_conv::Arguments& arguments, const Launch& where);
};

// In the order of Int8Conv2dVariant.
std::span<const Int8Conv2dEntry> int8_conv2d_wgmma_entries();

}  // namespace mobicuda::kernels
