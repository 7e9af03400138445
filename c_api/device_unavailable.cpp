#include "c_api/call.h"

using namespace mobicuda;         // NOLINT(google-build-using-namespace): the functions below are outside of any
using namespace mobicuda::c_api;  // NOLINT(google-build-using-namespace)

namespace {

// Arguments that can never work are told as elsewhere.
mobicuda_status refuse(const char* function, mobicuda_session* session, const void* input, const char* input_name,
                       const void* output) {
  return call(function, [&] {
    session_of(function, session);
    require(function, input, input_name);
    require(function, output, "output");
    throw Error(ErrorCode::unsupported, function, "the library was built without CUDA", "use mobicuda_session_run()");
  });
}

}  // namespace

int32_t mobicuda_has_cuda() { return 0; }

mobicuda_status mobicuda_session_run_on_device(mobicuda_session* session, int64_t /*n*/, const float* input,
                                               float* output, void* /*stream*/) {
  return refuse(__func__, session, input, "input", output);
}

mobicuda_status mobicuda_session_run_on_device_bytes(mobicuda_session* session, int64_t /*n*/, const uint8_t* pictures,
                                                     float* output, void* /*stream*/) {
  return refuse(__func__, session, pictures, "pictures", output);
}
