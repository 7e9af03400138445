#pragma once

#include <cuda_runtime_api.h>

namespace mobicuda {

/// While it lives, calls of this thread that CUDA counts as unsafe during a capture, such as those that allocate, break
/// off no capture: neither one that this thread's caller has begun, nor a global one of another thread. For work that
/// no capture has a part in.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }

  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace mobicuda
