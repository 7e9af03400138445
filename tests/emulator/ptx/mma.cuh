// kernels/ptx/mma.cuh for the emulator: sums in double, rounded once. (The tensor cores' own sums are less exact:
// docs/numerics.md.)
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/half2.cuh"

namespace mobicuda::kernels::ptx {

/// A lane's fragments of A (16 x kK), B (kK x 8) and the accumulators, as numbers. Those of A alternate between rows
/// lane / 4 and lane / 4 + 8.
template <int kK>
struct Fragments {
  double a[kK / 2];
  double b[kK / 4];
  double d[4];
};

/// Multiply(k, a, b, d) as emulator::multiply().
template <int kK, auto kMultiply>
void multiply_fragments(Fragments<kK>& own) {
  emulator::meet_in_warp(
      [](void* const* operands) {
        double a[16][kK];
        double b[kK][8];
        double d[16][8];
        for (int lane = 0; lane < 32; ++lane) {
          if (operands[lane] == nullptr) emulator::fail("an mma without all lanes of the warp");
          const auto& from = *static_cast<const Fragments<kK>*>(operands[lane]);
          for (int i = 0; i < kK / 4; ++i) {
            const int k = i * 4 + lane % 4;
            a[lane / 4][k] = from.a[2 * i];
            a[lane / 4 + 8][k] = from.a[2 * i + 1];
            b[k][lane / 4] = from.b[i];
          }
          for (int i = 0; i < 4; ++i) d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = from.d[i];
        }
        kMultiply(kK, a[0], b[0], d[0]);
        for (int lane = 0; lane < 32; ++lane) {
          auto& to = *static_cast<Fragments<kK>*>(operands[lane]);
          for (int i = 0; i < 4; ++i) to.d[i] = d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
        }
      },
      &own);
}

/// The same of halves, two in a word.
template <int kK>
struct HalfFragments {
  std::uint32_t a[kK / 4];
  std::uint32_t b[kK / 8];
  float d[4];
};

template <int kK>
void multiply_halves(float (&d)[4], const std::uint32_t* a, const std::uint32_t* b, const float (&c)[4]) {
  HalfFragments<kK> own;
  std::copy_n(a, kK / 4, own.a);
  std::copy_n(b, kK / 8, own.b);
  std::copy_n(c, 4, own.d);
  emulator::meet_in_warp(
      [](void* const* operands) {
        std::uint16_t a[16][kK];
        std::uint16_t b[8][kK];
        float d[16][8];
        for (int lane = 0; lane < 32; ++lane) {
          if (operands[lane] == nullptr) emulator::fail("an mma without all lanes of the warp");
          const auto& from = *static_cast<const HalfFragments<kK>*>(operands[lane]);
          const int row = lane / 4;
          for (int word = 0; word < kK / 8; ++word) {
            const int k = word * 8 + lane % 4 * 2;
            std::memcpy(&a[row][k], &from.a[2 * word], 4);
            std::memcpy(&a[row + 8][k], &from.a[2 * word + 1], 4);
            std::memcpy(&b[row][k], &from.b[word], 4);
          }
          std::memcpy(&d[row][lane % 4 * 2], from.d, 8);
          std::memcpy(&d[row + 8][lane % 4 * 2], from.d + 2, 8);
        }
        emulator::multiply_halves(kK, 8, a[0], b[0], d[0]);
        for (int lane = 0; lane < 32; ++lane) {
          auto& to = *static_cast<HalfFragments<kK>*>(operands[lane]);
          std::memcpy(to.d, &d[lane / 4][lane % 4 * 2], 8);
          std::memcpy(to.d + 2, &d[lane / 4 + 8][lane % 4 * 2], 8);
        }
      },
      &own);
  std::copy_n(own.d, 4, d);
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
  Fragments<kK> own;
  constexpr std::uint32_t kRead = ~((1U << 13U) - 1);  // the bits that the tensor cores read
  for (int i = 0; i < kK / 2; ++i) own.a[i] = static_cast<double>(__uint_as_float(a[i] & kRead));
  for (int i = 0; i < kK / 4; ++i) own.b[i] = static_cast<double>(__uint_as_float(b[i] & kRead));
  for (int i = 0; i < 4; ++i) own.d[i] = static_cast<double>(d[i]);
  multiply_fragments<kK, emulator::multiply>(own);
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
  Fragments<8> own{
      {a_upper[0], a_lower[0], a_upper[1], a_lower[1]}, {b[0], b[1]}, {d_upper[0], d_upper[1], d_lower[0], d_lower[1]}};
  multiply_fragments<8, multiply_rounding_once>(own);
  for (int i = 0; i < 2; ++i) {
    d_upper[i] = own.d[i];
    d_lower[i] = own.d[2 + i];
  }
}

}  // namespace mobicuda::kernels::ptx
