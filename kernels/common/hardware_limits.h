// The one table of what GPUs allow, for host and device.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels {

/// Limits of all GPUs of one compute capability.
struct HardwareLimits {
  int capability;                      ///< major * 10 + minor
  std::size_t shared_bytes_per_block;  ///< dynamic shared memory, with cudaFuncSetAttribute()
  std::size_t shared_bytes_per_multiprocessor;
  int cluster_blocks;        ///< of a cluster that every GPU runs; 1: no clusters
  int large_cluster_blocks;  ///< of a cluster of a kernel that asks for more than every GPU runs; GPUs with SMs
                             ///< switched off may run fewer
};

inline constexpr std::size_t kKilobyte = 1024;
/// Shared memory of a block that the driver takes for itself, from sm_80 on.
inline constexpr std::size_t kReservedSharedBytes = kKilobyte;
/// Dynamic shared memory that a block may have without cudaFuncSetAttribute().
inline constexpr std::size_t kSharedBytesWithoutAsking = 48 * kKilobyte;

/// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Ascending.
inline constexpr HardwareLimits kHardwareLimits[] = {
    {75, 64 * kKilobyte, 64 * kKilobyte, 1, 1},     {80, 163 * kKilobyte, 164 * kKilobyte, 1, 1},
    {86, 99 * kKilobyte, 100 * kKilobyte, 1, 1},    {87, 163 * kKilobyte, 164 * kKilobyte, 1, 1},
    {89, 99 * kKilobyte, 100 * kKilobyte, 1, 1},    {90, 227 * kKilobyte, 228 * kKilobyte, 8, 16},
    {100, 227 * kKilobyte, 228 * kKilobyte, 8, 16}, {103, 227 * kKilobyte, 228 * kKilobyte, 8, 16},
    {110, 227 * kKilobyte, 228 * kKilobyte, 8, 16}, {120, 99 * kKilobyte, 100 * kKilobyte, 8, 8},
    {121, 99 * kKilobyte, 100 * kKilobyte, 8, 8},
};

/// Of a capability of 75 or later; one that the table lacks has the limits of the one before.
constexpr HardwareLimits limits_of(int capability) {
  HardwareLimits limits = kHardwareLimits[0];
  for (const HardwareLimits& row : kHardwareLimits) {
    if (row.capability <= capability) limits = row;
  }
  return limits;
}

/// Dynamic shared memory that every GPU from `capability` on gives a block.
constexpr std::size_t least_shared_bytes_from(int capability) {
  std::size_t least = limits_of(capability).shared_bytes_per_block;
  for (const HardwareLimits& row : kHardwareLimits) {
    if (row.capability >= capability && row.shared_bytes_per_block < least) least = row.shared_bytes_per_block;
  }
  return least;
}

/// Dynamic shared memory, in whole KB, that each of `blocks` blocks of an SM can have.
constexpr int shared_bytes_of_each(int capability, int blocks) {
  const std::size_t kilobytes = limits_of(capability).shared_bytes_per_multiprocessor / kKilobyte;
  return static_cast<int>(kilobytes / static_cast<std::size_t>(blocks) * kKilobyte - kReservedSharedBytes);
}

}  // namespace mobicuda::kernels
