// unload LIBRARY FOLDER [gpu]: loads, uses and unloads libmobicuda a hundred times, with "gpu" five times on the GPU.
// It must be gone each time, also where threads that still run have had errors of it.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "install/loaded.h"

using namespace mobicuda::test;  // NOLINT(google-build-using-namespace)

namespace {

void provoke_error(void* library) {
  mobicuda_engine* none = nullptr;
  MOBICUDA_FUNCTION(library, mobicuda_engine_load_onnx)("/absent.onnx", nullptr, nullptr, &none);
  if (MOBICUDA_FUNCTION(library, mobicuda_last_error_status)() != MOBICUDA_IO) fail("no error");
}

// A thread that has an error of the library, and ends after it is unloaded.
class Witness {
 public:
  explicit Witness(void* library)
      : thread_([this, library] {
          provoke_error(library);
          std::unique_lock lock(mutex_);
          seen_ = true;
          changed_.notify_all();
          changed_.wait(lock, [this] { return may_end_; });
        }) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return seen_; });
  }
  ~Witness() {
    {
      const std::scoped_lock lock(mutex_);
      may_end_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool seen_ = false;
  bool may_end_ = false;
  std::thread thread_;
};

}  // namespace

int main(int count, char** arguments) {
  const bool gpu = count == 4 && std::string(arguments[3]) == "gpu";
  if (count != 3 && !gpu) fail("usage: unload LIBRARY FOLDER [gpu]");
  std::vector<float> first;
  for (int i = 0; i < (gpu ? 5 : 100); ++i) {
    void* library = load_library(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!is_mapped("libmobicuda")) fail("libmobicuda is loaded, but not mapped");
    use_library(library, arguments[2]);
    if (gpu) {
      const std::vector<float> output = run_model(library, arguments[2], MOBICUDA_BACKEND_CUSTOM);
      if (output.empty()) {
        std::puts("skipped: no CUDA device");
        return 0;
      }
      if (i == 0) first = output;
      if (output != first) fail("other outputs than when it was loaded first");
    }
    provoke_error(library);
    std::thread([library] { provoke_error(library); }).join();  // ends before
    const Witness witness(library);
    if (dlclose(library) != 0) fail(std::string("dlclose: ") + dlerror());
    if (is_mapped("libmobicuda")) fail("libmobicuda is still mapped after dlclose() number " + std::to_string(i + 1));
  }
}
