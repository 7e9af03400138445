// How the host enqueues y = act(f(a, b)) of broadcast.cuh.
#pragma once

#include <algorithm>

#include "kernels/common/broadcast.cuh"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

template <class Function, class T, int N, Right R>
cudaError_t launch_broadcast(const BroadcastRows& rows, const void* a, const void* b, void* y, const Launch& where) {
  const std::int64_t packets = rows.columns / N;
  const int width = static_cast<int>(std::min<std::int64_t>(packets, kBroadcastThreads));
  const int height = kBroadcastThreads / width;
  const std::int64_t across = ceil_div(packets, std::int64_t{width});
  if (across > kMaxGridX) return cudaErrorInvalidValue;
  const std::int64_t down = ceil_div(std::int64_t{rows.rows}, std::int64_t{height} * kBroadcastRowsPerThread);
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(std::min<std::int64_t>(down, kMaxGridYz)));
  const dim3 block(static_cast<unsigned>(width), static_cast<unsigned>(height));
  return launch(broadcast_kernel<Function, T, N, R>, grid, block, 0, where, rows, static_cast<const T*>(a),
                static_cast<const T*>(b), static_cast<T*>(y));
}

template <class Function, class T>
cudaError_t broadcast_of(const BroadcastRows& rows, const void* a, const void* b, void* y, const Launch& where) {
  constexpr int kN = kWide<T>;
  const std::int64_t inner = rows.stride[JoinedAxes::kCount - 1];
  const bool wide = rows.columns % kN == 0 && aligned_16(a, y);
  if (wide && inner == 0) return launch_broadcast<Function, T, kN, Right::Splat>(rows, a, b, y, where);
  const bool right_wide = inner == 1 && aligned_16(b) &&
                          std::all_of(rows.stride, rows.stride + JoinedAxes::kCount - 1,
                                      [](std::int64_t stride) { return stride % kN == 0; });
  if (wide && right_wide) return launch_broadcast<Function, T, kN, Right::Packets>(rows, a, b, y, where);
  return launch_broadcast<Function, T, 1, Right::Strided>(rows, a, b, y, where);
}

/// Function: what two numbers become, in float or double. Refuses what supports() does not.
template <class Function>
cudaError_t broadcast(const Broadcast& operands, Elem elem, const Activation& activation, const void* a, const void* b,
                      void* y, const Launch& where) {
  if (!supports(operands)) return cudaErrorInvalidValue;
  const JoinedAxes axes = join_axes(operands);
  if (axes.rows() == 0 || axes.columns() == 0) return cudaSuccess;
  BroadcastRows rows{axes.columns(),
                     {},
                     static_cast<unsigned>(axes.rows()),
                     FastDivision(static_cast<std::uint32_t>(axes.extent[2])),
                     FastDivision(static_cast<std::uint32_t>(axes.extent[1])),
                     activation};
  std::copy(axes.stride, axes.stride + JoinedAxes::kCount, rows.stride);
  switch (elem) {
    case Elem::F32:
      return broadcast_of<Function, float>(rows, a, b, y, where);
    case Elem::F16:
      return broadcast_of<Function, __half>(rows, a, b, y, where);
    case Elem::F64:
      return broadcast_of<Function, double>(rows, a, b, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
