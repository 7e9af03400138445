#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels {

/// What the next launch reads of weights: whole lines of L2. None where there is nothing to bring.
struct NextWeights {
  static constexpr std::uint32_t kLineBytes = 128;
  const void* at = nullptr;
  std::uint32_t lines = 0;
};

}  // namespace mobicuda::kernels
