#include "bench_engine/process/interrupt.h"

#include <atomic>
#include <csignal>

namespace mobicuda::bench {
namespace {

// Of the thread that the signal interrupts, whichever it is, for all others.
std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void request_stop(int) { requested = true; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  // The default action returns after the first signal, so that a hung run can still be stopped.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() noexcept { return requested; }

}  // namespace mobicuda::bench
