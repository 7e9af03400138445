// Device headers compile by themselves with NVRTC, which has no host headers: kernels can be compiled at run time.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.h"

#ifdef MOBICUDA_HAS_NVRTC
#include <nvrtc.h>
#endif

namespace mobicuda::test {
namespace {

#ifdef MOBICUDA_HAS_NVRTC

struct Compiled {
  bool good;
  std::string log;
  std::size_t code_bytes = 0;  ///< of machine code, where the architecture is a GPU's
};

/// With `kernel`, an instance of a template, its code. Unannotated functions, which device headers have for the host as
/// well, become the device's.
Compiled compile(const std::string& source, const std::string& architecture, const std::string& kernel = {}) {
  const std::string target = "--gpu-architecture=" + architecture;
  const std::vector<const char*> options = {target.c_str(),
                                            "--std=c++20",
                                            "--device-as-default-execution-space",
                                            "-I" MOBICUDA_SOURCE_DIR,
                                            "-I" MOBICUDA_CUDA_INCLUDE_DIR,
                                            "-I" MOBICUDA_CUDA_INCLUDE_DIR "/cccl"};
  nvrtcProgram program = nullptr;
  if (nvrtcCreateProgram(&program, source.c_str(), "header.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS) {
    return {false, "nvrtcCreateProgram() failed"};
  }
  if (!kernel.empty()) nvrtcAddNameExpression(program, kernel.c_str());
  const nvrtcResult result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  std::string log;
  if (nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS) {
    log.resize(size);
    nvrtcGetProgramLog(program, log.data());
  }
  Compiled compiled{result == NVRTC_SUCCESS, log.empty() ? nvrtcGetErrorString(result) : log};
  const char* name = nullptr;
  if (compiled.good && !kernel.empty()) {
    compiled.good = nvrtcGetLoweredName(program, kernel.c_str(), &name) == NVRTC_SUCCESS &&
                    nvrtcGetCUBINSize(program, &compiled.code_bytes) == NVRTC_SUCCESS;
  }
  nvrtcDestroyProgram(&program);
  return compiled;
}

/// Paths from the project's root, as includes have them.
std::vector<std::string> device_headers() {
  const std::filesystem::path root = MOBICUDA_SOURCE_DIR;
  std::vector<std::string> headers;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "kernels")) {
    if (entry.path().extension() == ".cuh") headers.push_back(entry.path().lexically_relative(root).generic_string());
  }
  std::sort(headers.begin(), headers.end());
  return headers;
}

TEST_CASE("device headers: each compiles by itself at run time, without host headers") {
  const std::vector<std::string> headers = device_headers();
  CHECK(headers.size() > 50);
  for (const std::string& header : headers) {
    for (const char* const architecture : {"compute_80", "compute_90a"}) {
      // wgmma is in sm_90a code only.
      if (header.find("wgmma") != std::string::npos && std::string(architecture) != "compute_90a") continue;
      const Compiled compiled = compile("#include \"" + header + "\"\n", architecture);
      INFO(header << " for " << architecture << ":\n" << compiled.log);
      CHECK(compiled.good);
    }
  }
}

/// A kernel of the family `family` of inverted_residual.
struct OtherShape {
  std::string family, kernel;
  const char* architecture;
  const char* config;
};

TEST_CASE("device headers: a kernel of another shape than the library's compiles to machine code at run time") {
  const OtherShape shapes[] = {
      // stride, input, hidden and output channels, columns, blocks of a cluster, warps, of which m, k, blocks of an SM
      {"cluster", "cluster_kernel", "sm_90", "1, 24, 144, 24, 4, 2, 5, 2, 1, 2"},
      {"cluster", "cluster_kernel", "sm_90", "2, 136, 816, 224, 4, 7, 8, 8, 1, 1"},
      // blocks of a cluster, stride, input, hidden and output channels, tile, channels of expand, lanes and channels of
      // project, threads, blocks of an SM
      {"simt_early", "early_kernel", "sm_90", "1, 2, 8, 48, 16, 2, 14, 16, 8, 8, 128, 2"},
      {"simt_early", "early_kernel", "sm_90", "8, 1, 40, 240, 40, 4, 4, 8, 8, 8, 128, 1"},
      // stride, tile, input, hidden and output channels, chunk, warps, of which side by side in hidden channels, strip,
      // warps side by side in output channels, blocks of an SM
      {"split", "split_kernel", "sm_80", "1, 7, 14, 40, 240, 40, 48, 6, 3, 7, 2, 4, 1, 2"},
      {"split", "split_kernel", "sm_90", "2, 4, 7, 8, 48, 16, 48, 4, 1, 4, 3, 2, 1, 3"},
      // side, input, hidden and output channels, tiles, parts, blocks of a cluster, stages, cuts
      {"image7", "image7_kernel", "sm_90a", "5, 56, 336, 56, 1, 1, 2, 4, 1"},
      {"image7", "image7_kernel", "sm_90a", "7, 208, 1248, 416, 1, 1, 2, 3, 2"},
  };
  for (const OtherShape& shape : shapes) {
    const std::string space = "mobicuda::kernels::inverted_" + shape.family + "::";
    const Compiled compiled =
        compile("#include \"kernels/inverted_residual/" + shape.family + "/kernel.cuh\"\n", shape.architecture,
                space + shape.kernel + "<" + space + "Shape<" + space + "Config{" + shape.config + "}>>");
    INFO(shape.family << ' ' << shape.config << ":\n" << compiled.log);
    CHECK(compiled.good);
    CHECK(compiled.code_bytes > 10000);  // an empty kernel has 3,400
  }
}

TEST_CASE("device headers: the small inverted_residual kernel compiles for the channels of other widths") {
  // input, hidden and output channels, stride, tile, slice, parts, blocks of an SM, whether they walk
  const std::string space = "mobicuda::kernels::inverted_small::";
  for (const char* const config : {"8, 48, 8, 1, 4, 8, 16, 2, 1, false", "48, 288, 88, 2, 2, 2, 32, 1, 1, true"}) {
    for (const char* const architecture : {"sm_80", "sm_90"}) {
      const Compiled compiled =
          compile("#include \"kernels/inverted_residual/small/kernel.cuh\"\n", architecture,
                  space + "small_kernel<" + space + "Shape<" + space + "Config{" + config + "}>>");
      INFO(config << " for " << architecture << ":\n" << compiled.log);
      CHECK(compiled.good);
      CHECK(compiled.code_bytes > 10000);  // an empty kernel has 3,400
    }
  }
}

TEST_CASE("device headers: a host header is an error") { CHECK(!compile("#include <cstdint>\n", "compute_80").good); }

#else

TEST_CASE("device headers: each compiles by itself at run time, without host headers") {
  MOBICUDA_SKIP("this toolkit has no NVRTC");
}

#endif

}  // namespace
}  // namespace mobicuda::test
