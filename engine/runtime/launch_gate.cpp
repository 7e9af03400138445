#include "runtime/launch_gate.h"

#include <chrono>
#include <thread>

#include "runtime/cuda_check.h"

namespace mobicuda {
namespace {

constexpr std::chrono::milliseconds kLongest{100};

}  // namespace

LaunchGate::LaunchGate(cudaStream_t stream) : stream_(stream) {
  cuda_check(cudaLaunchHostFunc(stream, wait, this), "holding a stream");
}

LaunchGate::~LaunchGate() {
  open();
  // wait() reads this object.
  static_cast<void>(cudaStreamSynchronize(stream_));
}

void LaunchGate::wait(void* gate) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (!static_cast<LaunchGate*>(gate)->open_.load() && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

}  // namespace mobicuda
