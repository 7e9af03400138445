#pragma once

#include <optional>

#include <cuda_runtime_api.h>

#include "runtime/device_buffer.h"

namespace mobicuda {

/// Keeps what a session enqueues, on its own stream and on its callers', in the order of the calls: all of it works on
/// the same memory. While the stream stays the same nothing waits.
class StreamOrder {
 public:
  /// `own` must outlive the object.
  explicit StreamOrder(cudaStream_t own) : own_(own) {}

  /// What is put on the session's own stream from now on runs after all that was enqueued before.
  void enter_own();

  /// The same for what `enqueue` puts on a caller's stream.
  template <class Enqueue>
  void on(cudaStream_t stream, const Enqueue& enqueue) {
    enter(stream);
    try {
      enqueue();
    } catch (...) {
      static_cast<void>(leave(stream));  // some of it may be on its way
      throw;
    }
    check(leave(stream));
  }

  /// Returns when all that was enqueued has ended. Errors are dropped: it is for destructors.
  void wait() const noexcept;

 private:
  void enter(cudaStream_t stream);
  cudaError_t leave(cudaStream_t stream) const noexcept { return cudaEventRecord(done_.get(), stream); }
  static void check(cudaError_t status);

  cudaStream_t own_;
  Event done_{cudaEventDisableTiming};  ///< after the last work on a caller's stream
  /// cudaStreamGetId() of the caller's stream that was used last; nothing where it was the session's own. A handle
  /// would not do: a new stream may have the handle of one that is gone, and cudaStreamPerThread is a stream for each
  /// thread.
  std::optional<unsigned long long> caller_;
};

}  // namespace mobicuda
