// The tests' main program. Built with MOBICUDA_GPU_TESTS for programs all of whose tests need a GPU: without
// one they report "skipped: no CUDA device", never "passed".
#define CATCH_CONFIG_RUNNER
#include "support/catch.h"

#ifdef MOBICUDA_GPU_TESTS
#include <cuda_runtime_api.h>
#endif

#include "models/zoo/keep_pages.h"
#include "support/emulated.h"

bool mobicuda::test::is_emulated() noexcept {
#ifdef MOBICUDA_GPU_TESTS
  return false;
#else
  return true;
#endif
}

int main(int argc, char** argv) {
  mobicuda::zoo::keep_pages();
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
#ifdef MOBICUDA_GPU_TESTS
  const auto& data = session.configData();
#ifdef MOBICUDA_CATCH2_V2
  const bool lists = data.listTests || data.listTags || data.listTestNamesOnly || data.listReporters || data.showHelp;
#else
  const bool lists = data.listTests || data.listTags || data.listReporters || data.showHelp;
#endif
  int devices = 0;
  if (!lists && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
    std::cout << "skipped: no CUDA device\n";
    return 0;
  }
#endif
  return session.run();
}
