#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <cuda_runtime.h>

namespace mobicuda::kernels {

/// Storage type of activations and packed weights. Arithmetic accumulates in double for F64, else in float.
enum class Elem : std::uint8_t { F32, F16, F64 };

inline constexpr std::size_t kElemCount = 3;

constexpr std::size_t size_of(Elem elem) {
  constexpr std::size_t kBytes[kElemCount] = {4, 2, 8};
  return kBytes[static_cast<std::size_t>(elem)];
}

/// min(max(x, lo), hi), applied last; NaN propagates.
struct Clip {
  float lo;
  float hi;
};

enum class ActivationKind : std::uint8_t { Clip, Sigmoid, Silu, HardSwish, Tanh, LeakyRelu, Elu };

/// Applied last; NaN propagates. Clip; Sigmoid: s(x) = 1 / (1 + exp(-x)); Silu: x * s(x); HardSwish:
/// x * min(max(x / 6 + 1/2, 0), 1); Tanh; where x < 0, LeakyRelu: alpha * x, and Elu: alpha * (exp(x) - 1), elsewhere
/// x.
struct Activation {
  ActivationKind kind = ActivationKind::Clip;
  float lo = -std::numeric_limits<float>::infinity();  ///< of Clip
  float hi = std::numeric_limits<float>::infinity();
  float alpha = 0.0F;  ///< of LeakyRelu and Elu, finite

  constexpr Activation() = default;
  constexpr Activation(Clip clip) : lo(clip.lo), hi(clip.hi) {}
  constexpr explicit Activation(ActivationKind which, float factor = 0.0F) : kind(which), alpha(factor) {}
};

/// Where and how a kernel is enqueued.
struct Launch {
  cudaStream_t stream = nullptr;
  /// Programmatic dependent launch (sm_90+): the kernel may start before its predecessor in the stream
  /// has ended, and waits for it in wait_for_predecessor(). Every kernel of this layer is written for it.
  bool programmatic = false;
};

/// Enqueues `kernel` with `arguments` (converted to the kernel's parameter types).
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, const Launch& where,
                   Arguments&&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = where.stream;
  config.attrs = &attribute;
  config.numAttrs = where.programmatic ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

/// Lets a kernel use more than 48 KB of dynamic shared memory. Call before launch(); cheap when repeated.
template <class Kernel>
cudaError_t allow_shared_memory(Kernel* kernel, std::size_t bytes) {
  if (bytes <= 48 * 1024) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }

#ifdef __CUDACC__
/// Call once in every thread, after loading what the predecessor does not write (weights, bias) and
/// before the first access to activations, reads and writes alike. Then lets the next kernel of the stream start its
/// prologue. Not earlier: the kernel after the next would become resident as well, and its blocks would pile up where
/// the next one's are to go.
__device__ inline void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
#endif

}  // namespace mobicuda::kernels
