#include "bench_engine/process/interrupt.h"

#include <csignal>

namespace mobicuda::bench {
namespace {

volatile std::sig_atomic_t requested = 0;

extern "C" void request_stop(int) { requested = 1; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  // The default action returns after the first signal, so that a hung run can still be stopped.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() noexcept { return requested != 0; }

}  // namespace mobicuda::bench
