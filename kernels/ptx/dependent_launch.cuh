// Programmatic dependent launch, the device's side: griddepcontrol. In the kernels' own namespace, as all kernels call
// it.
#pragma once

namespace mobicuda::kernels {

/// Call once in every thread, after loading what the predecessor does not write (weights, bias) and
/// before the first access to activations, reads and writes alike. Then lets the next kernel of the stream start its
/// prologue. Not earlier: the kernel after the next would become resident as well, and its blocks would pile up where
/// the next one's are to go.
__device__ inline void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" :::);
#endif
}

}  // namespace mobicuda::kernels
