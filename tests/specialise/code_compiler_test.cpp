// NVRTC opened at run time, with the device headers that are embedded in the library.
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <mobicuda/error.h>

#include "kernels/int8_inverted_residual/int8_inverted_residual.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "specialise/code_compiler.h"
#include "specialise/device_sources.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

const std::string kSpace = "mobicuda::kernels::inverted_cluster::";

kernels::CodeName cluster(const std::string& config) {
  return {"kernels/inverted_residual/cluster/kernel.cuh",
          kSpace + "cluster_kernel<" + kSpace + "Shape<" + kSpace + "Config{" + config + "}>>"};
}

/// Null where the machine has no NVRTC.
std::unique_ptr<const CodeCompiler> compiler() {
  try {
    return CodeCompiler::open({});
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::device_unavailable);
    return nullptr;
  }
}

TEST_CASE("device sources: headers are as they are included, and whole") {
  bool found = false;
  for (const DeviceSource& source : device_sources()) {
    CHECK(source.text.find('\0') == std::string_view::npos);
    CHECK_FALSE(source.text.empty());
    found = found || std::string_view(source.path) == "kernels/inverted_residual/cluster/kernel.cuh";
  }
  CHECK(found);
}

TEST_CASE("code compiler: a kernel of any configuration becomes machine code") {
  const auto nvrtc = compiler();
  if (nvrtc == nullptr) MOBICUDA_SKIP("no NVRTC");
  CHECK(nvrtc->version().starts_with("NVRTC "));
  CHECK(nvrtc->architecture(90, false) == "sm_90");
  CHECK(nvrtc->architecture(90, true) == "sm_90a");
  CHECK(nvrtc->architecture(999, false).starts_with("compute_"));
  CHECK_THROWS_AS(nvrtc->architecture(10, false), Error);
  CHECK_THROWS_AS(nvrtc->architecture(100, true), Error);
  const DeviceCode code = nvrtc->compile(cluster("1, 24, 144, 24, 4, 2, 5, 2, 1, 2"), "sm_90");
  CHECK(code.image.substr(1, 3) == "ELF");
  CHECK(code.kernel.find("cluster_kernel") != std::string::npos);
  CHECK(code.image.find(code.kernel) != std::string::npos);
  const kernels::Int8InvertedResidualParams any;
  const auto& int8 = kernels::kernel_of(any);
  for (const char* name : {"int8_block_1_48_288_48_7_14_4_1_2_1", "int8_block_1_48_288_48_7_7_12_3_2_3"}) {
    const auto block = int8.specialised_by_name(name);
    REQUIRE(block);
    CHECK(nvrtc->compile(int8.code(*block).value(), "sm_90").image.substr(1, 3) == "ELF");
    CHECK(nvrtc->compile(int8.code(*block).value(), "sm_80").image.substr(1, 3) == "ELF");
  }
  const kernels::InvertedResidualParams any_float;
  const auto& block = kernels::kernel_of(any_float);
  for (const char* name :
       {"simt_1_14_16_16_16_8_16_3_0_7_8_1_14_2_2_1_0_0_16_5", "simt_2_7_7_48_288_88_32_8_4_1_7_1_7_12_1_4_0_0_8_1"}) {
    const auto variant = block.specialised_by_name(name);
    REQUIRE(variant);
    CHECK(nvrtc->compile(block.code(*variant).value(), "sm_90").image.substr(1, 3) == "ELF");
  }
  const DeviceCode text = nvrtc->compile(cluster("1, 24, 144, 24, 4, 2, 5, 2, 1, 2"), "compute_90");
  CHECK(text.image.find(".target sm_90") != std::string::npos);
}

TEST_CASE("code compiler: an early float block of any configuration becomes machine code") {
  const auto nvrtc = compiler();
  if (nvrtc == nullptr) MOBICUDA_SKIP("no NVRTC");
  const auto& kernel = kernels::kernel_of(kernels::InvertedResidualParams{});
  for (const char* name : {"simt_early_1_2_8_48_16_2_14_16_8_8_128_2", "simt_early_2_1_16_96_16_7_7_16_8_8_256_1",
                           "simt_early_8_1_40_240_40_4_4_8_8_8_128_1"}) {
    const auto block = kernel.specialised_by_name(name);
    REQUIRE(block);
    CHECK(nvrtc->compile(kernel.code(*block).value(), "sm_90").image.substr(1, 3) == "ELF");
  }
}

TEST_CASE("code compiler: a block of split products of any configuration becomes machine code") {
  const auto nvrtc = compiler();
  if (nvrtc == nullptr) MOBICUDA_SKIP("no NVRTC");
  const auto& kernel = kernels::kernel_of(kernels::InvertedResidualParams{});
  for (const char* name : {"split_1_7_14_40_240_40_48_6_3_7_2_4_1_2", "split_2_4_7_8_48_16_48_4_1_4_3_2_1_3"}) {
    const auto block = kernel.specialised_by_name(name);
    REQUIRE(block);
    CHECK(nvrtc->compile(kernel.code(*block).value(), "sm_90").image.substr(1, 3) == "ELF");
  }
}

TEST_CASE("code compiler: what cannot be compiled is told in the compiler's words") {
  const auto nvrtc = compiler();
  if (nvrtc == nullptr) MOBICUDA_SKIP("no NVRTC");
  const auto why = [&](const kernels::CodeName& name) {
    try {
      nvrtc->compile(name, "sm_90");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::internal);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(why(cluster("1, 20, 144, 24, 4, 2, 5, 2, 1, 2")).find("is_valid") != std::string::npos);
  CHECK(why({"kernels/absent.cuh", "f<1>"}).find("kernels/absent.cuh") != std::string::npos);
}

TEST_CASE("code compiler: a file that is none is refused by name") {
  const auto refused = [](const std::filesystem::path& file) {
    try {
      CodeCompiler::open(file);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::device_unavailable);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused("/absent/libnvrtc.so").find("/absent/libnvrtc.so") != std::string::npos);
  CHECK(refused("libc.so.6").find("lacks functions") != std::string::npos);
}

}  // namespace
}  // namespace mobicuda
