#include "runtime/stream_order.h"

#include "runtime/cuda_check.h"

namespace mobicuda {

void StreamOrder::check(cudaError_t status) { cuda_check(status, "ordering a session's streams"); }

void StreamOrder::enter_own() {
  if (!caller_) return;
  check(cudaStreamWaitEvent(own_, done_.get(), cudaEventWaitDefault));
  caller_.reset();
}

void StreamOrder::enter(cudaStream_t stream) {
  unsigned long long id = 0;
  check(cudaStreamGetId(stream, &id));
  if (caller_ == id) return;
  // The session's own stream can be asked now. A caller's may be gone by the next call, hence leave().
  if (!caller_) check(cudaEventRecord(done_.get(), own_));
  check(cudaStreamWaitEvent(stream, done_.get(), cudaEventWaitDefault));
  caller_ = id;
}

void StreamOrder::wait() const noexcept {
  if (caller_) static_cast<void>(cudaEventSynchronize(done_.get()));
  static_cast<void>(cudaStreamSynchronize(own_));
}

}  // namespace mobicuda
