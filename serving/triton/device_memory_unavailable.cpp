// In place of device_memory.cpp, in builds without CUDA.
#include <mobicuda/error.h>

#include "triton/device_memory.h"

namespace mobicuda::triton {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported, "a tensor in GPU memory", "this backend was built without CUDA",
              "send it in the request, or in system shared memory");
}

}  // namespace

int device_of(const void* /*buffer*/) { refuse(); }

void copy_any(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) { refuse(); }

std::unique_ptr<DeviceRuns> make_device_runs(Session& /*session*/, const Engine& /*engine*/) { refuse(); }

}  // namespace mobicuda::triton
