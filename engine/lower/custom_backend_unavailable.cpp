#include <mobicuda/custom_backend.h>

#include <mobicuda/error.h>

namespace mobicuda {

// Stands in for custom_backend.cpp where there was no CUDA compiler, so that programs link all the same.
std::unique_ptr<Backend> make_custom_backend() {
  throw Error(ErrorCode::device_unavailable, "custom engine", "this libmobicuda was built without CUDA",
              "install the CUDA Toolkit and configure with -DMOBICUDA_CUDA=ON, or use the cpu engine");
}

}  // namespace mobicuda
