// kernels/ptx/mma.cuh for the emulator: sums in double, rounded once. (The tensor cores' own sums are less exact:
// docs/numerics.md.)
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/half2.cuh"

namespace mobicuda::kernels::ptx {

/// A lane's fragments of A (16 x kK), B (kK x 8) and the accumulators, as numbers. Words of A alternate between rows
/// lane / 4 and lane / 4 + 8; each has kPack neighbours of k, and so has each of B.
template <int kK, int kPack>
struct Fragments {
  static constexpr int kWords = kK / (4 * kPack);
  double a[2 * kWords * kPack];
  double b[kWords * kPack];
  double d[4];
};

/// Multiply(k, a, b, d) as emulator::multiply().
template <int kK, int kPack, auto kMultiply>
void multiply_fragments(Fragments<kK, kPack>& own) {
  emulator::meet_in_warp(
      [](void* const* operands) {
        using F = Fragments<kK, kPack>;
        double a[16][kK];
        double b[kK][8];
        double d[16][8];
        for (int lane = 0; lane < 32; ++lane) {
          if (operands[lane] == nullptr) emulator::fail("an mma without all lanes of the warp");
          const F& from = *static_cast<const F*>(operands[lane]);
          for (int word = 0; word < F::kWords; ++word) {
            for (int i = 0; i < kPack; ++i) {
              const int k = word * 4 * kPack + lane % 4 * kPack + i;
              a[lane / 4][k] = from.a[2 * word * kPack + i];
              a[lane / 4 + 8][k] = from.a[(2 * word + 1) * kPack + i];
              b[k][lane / 4] = from.b[word * kPack + i];
            }
          }
          for (int i = 0; i < 4; ++i) d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = from.d[i];
        }
        kMultiply(kK, a[0], b[0], d[0]);
        for (int lane = 0; lane < 32; ++lane) {
          F& to = *static_cast<F*>(operands[lane]);
          for (int i = 0; i < 4; ++i) to.d[i] = d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
        }
      },
      &own);
}

template <int kK>
void multiply_halves(float (&d)[4], const std::uint32_t* a, const std::uint32_t* b, const float (&c)[4]) {
  Fragments<kK, 2> own;
  const auto put = [](double* to, std::uint32_t word) {
    to[0] = static_cast<double>(emulator::float_of_half(word));
    to[1] = static_cast<double>(emulator::float_of_half(word >> 16U));
  };
  for (int i = 0; i < kK / 4; ++i) put(own.a + 2 * i, a[i]);
  for (int i = 0; i < kK / 8; ++i) put(own.b + 2 * i, b[i]);
  for (int i = 0; i < 4; ++i) own.d[i] = static_cast<double>(c[i]);
  multiply_fragments<kK, 2, emulator::multiply>(own);
  for (int i = 0; i < 4; ++i) d[i] = static_cast<float>(own.d[i]);
}

inline void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                        const float (&c)[4]) {
  const std::uint32_t b[] = {b0, b1};
  multiply_halves<16>(d, a, b, c);
}
inline void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  mma_16x8x16(d, a, b0, b1, d);
}
inline void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                        const std::uint32_t (&c)[4]) {
  const float start[] = {__uint_as_float(c[0]), __uint_as_float(c[1]), __uint_as_float(c[2]), __uint_as_float(c[3])};
  mma_16x8x16(d, a, b0, b1, start);
}
inline void mma_16x8x8(float (&d)[4], const std::uint32_t (&a)[2], std::uint32_t b, const float (&c)[4]) {
  multiply_halves<8>(d, a, &b, c);
}
inline void mma_16x8x8(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b) {
  const std::uint32_t a[] = {a0, a1};
  multiply_halves<8>(d, a, &b, d);
}

template <int kK>
void multiply_tf32(float (&d)[4], const std::uint32_t* a, const std::uint32_t* b) {
  Fragments<kK, 1> own;
  constexpr std::uint32_t kRead = ~((1U << 13U) - 1);  // the bits that the tensor cores read
  for (int i = 0; i < kK / 2; ++i) own.a[i] = static_cast<double>(__uint_as_float(a[i] & kRead));
  for (int i = 0; i < kK / 4; ++i) own.b[i] = static_cast<double>(__uint_as_float(b[i] & kRead));
  for (int i = 0; i < 4; ++i) own.d[i] = static_cast<double>(d[i]);
  multiply_fragments<kK, 1, emulator::multiply>(own);
  for (int i = 0; i < 4; ++i) d[i] = static_cast<float>(own.d[i]);
}
inline void mma_tf32_16x8x8(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  const std::uint32_t b[] = {b0, b1};
  multiply_tf32<8>(d, a, b);
}
inline void mma_tf32_16x8x4(float (&d)[4], const std::uint32_t (&a)[2], std::uint32_t b) { multiply_tf32<4>(d, a, &b); }

/// In double each product is added by itself, rounded once.
inline void multiply_rounding_once(int k, const double* a, const double* b, double* d) {
  for (int at = 0; at < 16 * 8; ++at) {
    for (int i = 0; i < k; ++i) d[at] = std::fma(a[at / 8 * k + i], b[i * 8 + at % 8], d[at]);
  }
}
inline void mma_f64_16x8x8(double (&d_upper)[2], double (&d_lower)[2], const double (&a_upper)[2],
                           const double (&a_lower)[2], const double (&b)[2]) {
  Fragments<8, 1> own{
      {a_upper[0], a_lower[0], a_upper[1], a_lower[1]}, {b[0], b[1]}, {d_upper[0], d_upper[1], d_lower[0], d_lower[1]}};
  multiply_fragments<8, 1, multiply_rounding_once>(own);
  for (int i = 0; i < 2; ++i) {
    d_upper[i] = own.d[i];
    d_lower[i] = own.d[2 + i];
  }
}

}  // namespace mobicuda::kernels::ptx
