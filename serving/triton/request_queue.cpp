#include "triton/request_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mobicuda::triton {

std::size_t RequestQueue::push(std::vector<Request>& requests) {
  std::size_t taken = 0;
  {
    const std::scoped_lock lock(mutex_);
    const std::size_t room =
        most_waiting_ == 0 ? requests.size() : most_waiting_ - std::min(most_waiting_, requests_.size());
    for (; taken < std::min(room, requests.size()); ++taken) requests_.push_back(std::move(requests[taken]));
  }
  waiting_.add(static_cast<double>(taken));
  // One batch may hold them all: an instance that finds none is no worse off.
  for (std::size_t i = 0; i < taken; ++i) came_.notify_one();
  return taken;
}

std::vector<Request> RequestQueue::pop(const std::stop_token& stop) {
  std::vector<Request> batch;
  {
    std::unique_lock lock(mutex_);
    came_.wait(lock, stop, [this] { return !requests_.empty(); });
    std::int64_t images = 0;
    while (!requests_.empty() && images + requests_.front().images() <= most_images_) {
      images += requests_.front().images();
      batch.push_back(std::move(requests_.front()));
      requests_.pop_front();
    }
  }
  waiting_.add(-static_cast<double>(batch.size()));
  return batch;
}

}  // namespace mobicuda::triton
