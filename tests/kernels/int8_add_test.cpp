#include "kernels/streaming/int8_add.h"

#include <vector>

#include "support/catch.h"
#include "support/int8_data.h"

namespace mobicuda::test {
namespace {

using kernels::ByteSum;
using kernels::Int8AddParams;

constexpr ByteSum kSum{0.75F, 1.25F, -3, 11, {3, -128, 127}};

void check_add(const ByteSum& sum, const Bytes& a, const Bytes& b) {
  Bytes expected(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) expected[i] = add_bytes(sum, a[i], b[i]);
  const GuardedBuffer left = on_device(a);
  const GuardedBuffer right = on_device(b);
  const Int8AddParams p{static_cast<std::int64_t>(a.size()), sum};
  const Bytes y = run_on_bytes<std::int8_t>(a.size(), [&](void* out, const kernels::Launch& where) {
    return kernels::int8_add(p, left.data(), right.data(), out, where);
  });
  CHECK(y == expected);
}

TEST_CASE("int8_add equals the oracle in every bit on all pairs of bytes", "[sanitize]") {
  constexpr int kValues = 256;
  Bytes a;
  Bytes b;
  for (int i = 0; i < kValues * kValues; ++i) {
    a.push_back(static_cast<std::int8_t>(i / kValues - 128));
    b.push_back(static_cast<std::int8_t>(i % kValues - 128));
  }
  for (const kernels::ByteRange& range : kByteRanges) {
    ByteSum sum = kSum;
    sum.output = range;
    check_add(sum, a, b);
  }
  // Halves, of which every other is rounded up.
  for (const int zero : {-128, 127}) check_add({0.5F, 0.5F, zero, -1, {1, -128, 127}}, a, b);
  check_add({1e30F, 1e-30F, 0, 0, {}}, a, b);
}

TEST_CASE("int8_add takes every count of words", "[sanitize]") {
  for (const std::size_t words : {1, 3, 4, 5, 127, 129, 1000}) {
    check_add(kSum, make_bytes(ByteData::Random, 1, 4 * words), make_bytes(ByteData::Random, 2, 4 * words));
  }
}

TEST_CASE("int8_add refuses what it does not compute") {
  const auto refused = [](std::int64_t elements, const ByteSum& sum) {
    return kernels::int8_add({elements, sum}, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue;
  };
  CHECK(refused(-4, kSum));
  CHECK(refused(6, kSum));
  CHECK(refused(4, {0.0F, 1.0F, 0, 0, {}}));
  CHECK(refused(4, {1.0F, 1.0F, 0, 128, {}}));
  CHECK(refused(4, {1.0F, 1.0F, 0, 0, {0, 3, 2}}));
  CHECK(kernels::int8_add({0, kSum}, nullptr, nullptr, nullptr, {}) == cudaSuccess);
}

TEST_CASE("int8_add once", "[race]") {
  check_add(kSum, make_bytes(ByteData::Random, 3, 1024), make_bytes(ByteData::Random, 4, 1024));
}

}  // namespace
}  // namespace mobicuda::test
