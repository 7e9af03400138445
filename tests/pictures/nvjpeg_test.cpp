// What can be seen of loading nvJPEG without a GPU.
#include "pictures/gpu/nvjpeg.h"

#include <cstdlib>

#include <mobicuda/error.h>

#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

TEST_CASE("a library that is no nvJPEG is refused with reason and remedy", "[nvjpeg]") {
  CHECK_THROWS_WITH(Nvjpeg::load("/nonexistent/libnvjpeg.so", Device{}),
                    contains("device_unavailable: nvJPEG: /nonexistent/libnvjpeg.so") &&
                        contains("ClassifierOptions::nvjpeg_library"));
  CHECK_THROWS_WITH(Nvjpeg::load("libm.so.6", Device{}), contains("the library lacks nvjpegGetProperty"));
}
