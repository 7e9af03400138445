#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include "triton/metrics.h"
#include "triton/request.h"

namespace mobicuda::triton {

/// Requests of a model that wait for an instance. The server has a queue of its own, which this one is behind: that
/// starts batches only every half second when it is bounded and full. Thread-safe.
class RequestQueue {
 public:
  /// A batch has `most_images` at most; `most_waiting` requests wait at most, 0: no limit.
  RequestQueue(std::int64_t most_images, std::int64_t most_waiting, Metric waiting)
      : most_images_(most_images),
        most_waiting_(static_cast<std::size_t>(most_waiting)),
        waiting_(std::move(waiting)) {}

  /// Takes requests from the front of `requests`, all at once, as far as there is room; returns how many. Throws
  /// std::bad_alloc, and has taken those then which are no longer there.
  std::size_t push(std::vector<Request>& requests);

  /// The next batch, as large as what waits, once there is one. Nothing once `stop` was requested and none waits.
  std::vector<Request> pop(const std::stop_token& stop);

  std::int64_t most_waiting() const noexcept { return static_cast<std::int64_t>(most_waiting_); }

 private:
  const std::int64_t most_images_;
  const std::size_t most_waiting_;
  Metric waiting_;
  std::mutex mutex_;
  std::condition_variable_any came_;
  std::deque<Request> requests_;
};

}  // namespace mobicuda::triton
