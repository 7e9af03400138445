#include <mobicuda/cuda_interop.h>

#include "c_api/call.h"

using namespace mobicuda;         // NOLINT(google-build-using-namespace): the functions below are outside of any
using namespace mobicuda::c_api;  // NOLINT(google-build-using-namespace)

int32_t mobicuda_has_cuda() { return 1; }

mobicuda_status mobicuda_session_run_on_device(mobicuda_session* session, int64_t n, const float* input, float* output,
                                               void* stream) {
  return call(__func__, [&, function = __func__] {
    Session& run = session_of(function, session);
    require(function, input, "input");
    require(function, output, "output");
    run_on_device(run, n, input, output, static_cast<cudaStream_t>(stream));
  });
}

mobicuda_status mobicuda_session_run_on_device_bytes(mobicuda_session* session, int64_t n, const uint8_t* pictures,
                                                     float* output, void* stream) {
  return call(__func__, [&, function = __func__] {
    Session& run = session_of(function, session);
    require(function, pictures, "pictures");
    require(function, output, "output");
    run_on_device(run, n, pictures, output, static_cast<cudaStream_t>(stream));
  });
}
