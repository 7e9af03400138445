#include "kernels/streaming/concat.h"

#include <limits>
#include <numeric>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::ConcatParams;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kRows[] = {0, 1, 2, 49, 1025};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

/// Parts behind one another, with nothing between them.
ConcatParams joined(Elem elem, std::int64_t rows, const std::vector<std::int64_t>& columns) {
  ConcatParams p;
  p.elem = elem;
  p.rows = rows;
  for (const std::int64_t part : columns) {
    p.part[p.parts++] = {part, part, p.pitch};
    p.pitch += part;
  }
  return p;
}

/// Columns that no part has keep run_kernel's NaN.
void check_concat(const ConcatParams& p, std::size_t misalign = 0) {
  CAPTURE(to_string(p.elem), p.rows, p.pitch, p.parts, p.part[0].columns, p.part[0].pitch, p.part[0].first, misalign);
  std::vector<DeviceTensor> parts;
  std::vector<const void*> x;
  std::vector<float> expected(size(p.rows * p.pitch), kNan);
  for (int i = 0; i < p.parts; ++i) {
    const auto [columns, pitch, first] = p.part[i];
    const auto seed = static_cast<std::uint32_t>(i + 1);
    const std::vector<float> values = rounded(p.elem, random_uniform(seed, size(p.rows * pitch)));
    parts.emplace_back(p.elem, values, misalign);
    x.push_back(parts.back().data());
    for (std::int64_t row = 0; row < p.rows; ++row) {
      for (std::int64_t j = 0; j < columns; ++j) {
        expected[size(row * p.pitch + first + j)] = values[size(row * pitch + j)];
      }
    }
  }
  const auto y = run_kernel(p.elem, expected.size(), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::concat(p, x.data(), out, where);
  });
  CHECK(compare_bits(y, expected));
  for (const DeviceTensor& part : parts) CHECK(part.check_unchanged());
}

TEST_CASE("concat joins columns of every width", "[sanitize]") {
  const std::vector<std::int64_t> widths[] = {{1, 1}, {8, 16, 8}, {64, 32},      {3, 8, 5},    {2, 6, 4},       {4, 12},
                                              {17},   {0, 8, 0},  {600, 8, 520}, {1, 1300, 7}, {16, 24, 32, 40}};
  for (const Elem elem : kAllElems) {
    for (const auto& columns : widths) {
      for (const std::int64_t rows : kRows) {
        for (const std::size_t misalign : {0, 1, 2}) check_concat(joined(elem, rows, columns), misalign);
      }
    }
  }
}

TEST_CASE("concat joins as many parts as it takes", "[sanitize]") {
  std::vector<std::int64_t> columns(kernels::kMostConcatParts);
  std::iota(columns.begin(), columns.end(), std::int64_t{1});
  for (const Elem elem : kAllElems) {
    check_concat(joined(elem, 33, columns));
    for (std::int64_t& count : columns) count *= 8;
    check_concat(joined(elem, 33, columns));
  }
}

TEST_CASE("concat cuts columns out of wider rows", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const auto& [columns, pitch] : {std::pair{8, 24}, {5, 24}, {16, 17}, {1, 9}, {4, 12}, {700, 703}}) {
      for (const std::int64_t rows : kRows) {
        ConcatParams p = joined(elem, rows, {columns});
        p.part[0].pitch = pitch;
        check_concat(p);
      }
    }
  }
}

TEST_CASE("concat leaves columns that no part has as they are", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const std::int64_t rows : kRows) {
      ConcatParams p;
      p.elem = elem;
      p.rows = rows;
      p.pitch = 64;
      p.parts = 2;
      p.part[0] = {8, 16, 40};  // parts need not be in the order of y's columns
      p.part[1] = {16, 16, 8};
      check_concat(p);
      p.part[0] = {7, 9, 41};
      check_concat(p);
    }
  }
}

TEST_CASE("concat goes down more rows than one grid holds", "[large]") {
  constexpr std::int64_t kManyRows = 65535LL * 128 * 4 + 77;  // one more round than grid y, block and thread cover
  ConcatParams p = joined(Elem::F16, kManyRows, {1});
  const DeviceTensor x(Elem::F16, random_uniform(1, size(kManyRows)));
  const void* parts[] = {x.data()};
  const auto y = run_kernel(Elem::F16, size(kManyRows), 0, [&](void* out, const kernels::Launch& where) {
    return kernels::concat(p, parts, out, where);
  });
  CHECK(compare_bits(y, x.download()));
}

TEST_CASE("concat reaches elements beyond 2^31", "[large]") {
  constexpr std::int64_t kColumns = (std::int64_t{1} << 31) + 64;
  const GuardedBuffer x(2 * size(kColumns));
  const GuardedBuffer y(2 * size(kColumns));
  constexpr int kByte = 0x40;
  check_cuda(cudaMemset(x.data(), kByte, x.bytes()), "cudaMemset");
  const ConcatParams p = joined(Elem::F16, 1, {kColumns});
  const void* parts[] = {x.data()};
  REQUIRE(kernels::concat(p, parts, y.data(), {}) == cudaSuccess);
  synchronize();
  std::vector<std::uint16_t> end(64);
  const auto* last = static_cast<const std::uint16_t*>(y.data()) + (kColumns - 64);
  check_cuda(cudaMemcpy(end.data(), last, 128, cudaMemcpyDeviceToHost), "cudaMemcpy");
  CHECK(end == std::vector<std::uint16_t>(64, 0x4040));
  CHECK(y.check_guards());
}

TEST_CASE("concat refuses parts that do not fit") {
  const void* x[] = {nullptr};
  ConcatParams p = joined(Elem::F32, 4, {8});
  p.part[0].first = 1;
  CHECK(kernels::concat(p, x, nullptr, {}) == cudaErrorInvalidValue);
  p.part[0].first = 0;
  p.part[0].pitch = 7;
  CHECK(kernels::concat(p, x, nullptr, {}) == cudaErrorInvalidValue);
  p.part[0].pitch = 8;
  p.rows = -1;
  CHECK(kernels::concat(p, x, nullptr, {}) == cudaErrorInvalidValue);
  p.rows = 4;
  p.parts = kernels::kMostConcatParts + 1;
  CHECK(kernels::concat(p, x, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("concat once for each type", "[race]") {
  for (const Elem elem : kAllElems) check_concat(joined(elem, 35, {16, 24, 3}));
}

}  // namespace
}  // namespace mobicuda::test
