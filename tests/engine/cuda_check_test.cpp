#include "runtime/cuda_check.h"

#include <string>

#include "runtime/device_guard.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

// Both kinds of machines run this: the runtime has one status for no driver and for one that is too old.
TEST_CASE("a driver that is not there is told from one that is too old") {
  int version = 0;
  const bool absent = cudaDriverGetVersion(&version) == cudaSuccess && version == 0;
  CAPTURE(version);
  try {
    cuda_check(cudaErrorInsufficientDriver, "looking for CUDA devices");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::device_unavailable);
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.starts_with("device_unavailable: looking for CUDA devices: "));
    CHECK((text.find("no NVIDIA driver found; install one") != std::string::npos) == absent);
    CHECK((text.find("install a newer NVIDIA driver") != std::string::npos) == !absent);
  }
}

TEST_CASE("a device that is not there is refused, with a driver or without") {
  const int index = GENERATE(-1, 1 << 20);
  try {
    open_device(index);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::device_unavailable);
    CHECK(!error.hint().empty());
  }
}

TEST_CASE("a default stream that a capture blocks is the caller's to change") {
  try {
    cuda_check(cudaErrorStreamCaptureImplicit, "asking whether the stream is being captured");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(error.hint().find("cudaStreamNonBlocking") != std::string::npos);
  }
}

}  // namespace
}  // namespace mobicuda
