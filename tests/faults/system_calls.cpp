#include "faults/system_calls.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct State {
  bool active = false;
  std::size_t most_bytes = 0;
  std::function<void(int)> before_read;
  bool interrupt = false;
  int reads = 0;
  int interrupted = 0;
  int fell_short = 0;
};
State state;

// Whether this call is to be interrupted; else cuts what it may move.
bool interrupts(std::size_t& count, bool reads) {
  if (!state.active) return false;
  state.interrupt = !state.interrupt;
  if (state.interrupt) {
    ++state.interrupted;
    errno = EINTR;
    return true;
  }
  if (reads && state.before_read) {
    state.active = false;  // what it does is not obstructed
    state.before_read(state.reads++);
    state.active = true;
  }
  if (count > state.most_bytes) {
    count = state.most_bytes;
    ++state.fell_short;
  }
  return false;
}

}  // namespace

// The program's own, in place of the C library's, also for the C++ library.
extern "C" {
#pragma GCC visibility push(default)

ssize_t read(int file, void* bytes, std::size_t count) {
  return interrupts(count, true) ? -1 : syscall(SYS_read, file, bytes, count);
}

ssize_t pread(int file, void* bytes, std::size_t count, off_t offset) {
  return interrupts(count, true) ? -1 : syscall(SYS_pread64, file, bytes, count, offset);
}

ssize_t pread64(int file, void* bytes, std::size_t count, off64_t offset) {
  return interrupts(count, true) ? -1 : syscall(SYS_pread64, file, bytes, count, offset);
}

ssize_t write(int file, const void* bytes, std::size_t count) {
  return interrupts(count, false) ? -1 : syscall(SYS_write, file, bytes, count);
}

#pragma GCC visibility pop
}

namespace mobicuda::test {

ObstinateCalls::ObstinateCalls(std::size_t most_bytes, std::function<void(int)> before_read) {
  state = {};
  state.most_bytes = most_bytes;
  state.before_read = std::move(before_read);
  state.active = true;
}

ObstinateCalls::~ObstinateCalls() { state.active = false; }

int ObstinateCalls::interrupted() const { return state.interrupted; }
int ObstinateCalls::fell_short() const { return state.fell_short; }

}  // namespace mobicuda::test
