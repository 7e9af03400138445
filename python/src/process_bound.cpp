#include "process_bound.h"

#include <atomic>

#include <pthread.h>

namespace mobicuda::python {
namespace {

std::atomic<unsigned> fork_count{0};
const int kRegistered = pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1); });

}  // namespace

unsigned forks() noexcept {
  static_cast<void>(kRegistered);
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace mobicuda::python
