#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/run_kernel.h"

namespace mobicuda::test {
namespace {

// X has more than 2^31 elements, Y more than 2^30: offsets must not be computed in int.
TEST_CASE("gemm: the last rows of a matrix of more than 2^31 elements are right", "[gemm][large]") {
  constexpr int kRows = (1 << 27) + 3;
  constexpr int kColumns = 8;
  constexpr int kProducts = 16;
  constexpr int kLastRows = 200;  // other than zero
  constexpr std::size_t kXBytes = std::size_t{kRows} * kProducts * 2;
  constexpr std::size_t kYBytes = std::size_t{kRows} * kColumns * 2;
  constexpr std::size_t kReserveBytes = std::size_t{1} << 30U;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < kXBytes + kYBytes + kReserveBytes) MOBICUDA_SKIP("needs 8 GB of device memory");

  kernels::GemmParams p;
  p.elem = Elem::F16;
  p.output = Elem::F16;
  p.m = kRows;
  p.n = kColumns;
  p.k = kProducts;
  p.activation = kernels::Clip{-1000.0F, 1000.0F};
  const std::vector<float> ones(std::size_t{kColumns} * kProducts, 1.0F);
  std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, p.n, p.k));
  kernels::gemm_pack(p.elem, p.n, p.k, ones.data(), packed.data());
  const GuardedBuffer w(packed);

  // Row i of the last ones holds i % 8 everywhere, so that its sums are 16 (i % 8).
  const auto value_of = [](std::size_t row) { return static_cast<float>(row % 8); };
  std::vector<__half_raw> last(std::size_t{kLastRows} * kProducts);
  for (std::size_t i = 0; i < last.size(); ++i) {
    last[i] = static_cast<__half_raw>(__float2half_rn(value_of(i / kProducts)));
  }
  const GuardedBuffer x(kXBytes);
  check_cuda(cudaMemset(x.data(), 0, kXBytes), "cudaMemset");
  check_cuda(cudaMemcpy(static_cast<std::byte*>(x.data()) + kXBytes - last.size() * 2, last.data(), last.size() * 2,
                        cudaMemcpyHostToDevice),
             "upload");

  GuardedBuffer y(kYBytes);
  for (const kernels::GemmVariant variant : kernels::gemm_variants()) {
    if (!supports(variant, p, gpu_traits())) continue;
    INFO(name(variant));
    y.fill_nan();
    REQUIRE(kernels::gemm(variant, p, x.data(), w.data(), nullptr, nullptr, y.data(), {}) == cudaSuccess);
    synchronize();
    CHECK(y.check_guards());
    std::vector<__half_raw> actual(std::size_t{2} * kLastRows *
                                   kColumns);  // as many rows of zeros before the last ones
    check_cuda(cudaMemcpy(actual.data(), static_cast<std::byte*>(y.data()) + kYBytes - actual.size() * 2,
                          actual.size() * 2, cudaMemcpyDeviceToHost),
               "download");
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const std::size_t row = i / kColumns;
      const float expected = row < kLastRows ? 0.0F : value_of(row - kLastRows) * kProducts;
      if (!(__half2float(__half(actual[i])) == expected)) ++wrong;  // true for NaN
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace mobicuda::test
