// kernels/ptx/int8.cuh for the emulator.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

inline std::int32_t byte_of(std::uint32_t word, int at) { return static_cast<std::int8_t>(word >> 8 * at); }

/// Sums wrap, as the GPU's do.
inline std::int32_t dp4a(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  auto total = static_cast<std::uint32_t>(sum);
  for (int i = 0; i < 4; ++i) total += static_cast<std::uint32_t>(byte_of(a, i) * byte_of(b, i));
  return static_cast<std::int32_t>(total);
}

struct ByteFragments {
  std::uint32_t a[4];
  std::uint32_t b[2];
  std::int32_t d[4];
};

template <bool kUnsigned>
void multiply_bytes(std::int32_t (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  ByteFragments own{{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  emulator::meet_in_warp(
      [](void* const* operands) {
        // Lane t of a quad has word t, bytes 4t to 4t + 3, of its row's (of b: column's) first and second 16.
        std::uint32_t left[16][8];
        std::uint32_t right[8][8];
        std::uint32_t sums[16][8];
        for (int lane = 0; lane < 32; ++lane) {
          if (operands[lane] == nullptr) emulator::fail("an mma without all lanes of the warp");
          const auto& from = *static_cast<const ByteFragments*>(operands[lane]);
          for (int i = 0; i < 4; ++i) left[lane / 4 + i % 2 * 8][i / 2 * 4 + lane % 4] = from.a[i];
          for (int i = 0; i < 2; ++i) right[lane / 4][i * 4 + lane % 4] = from.b[i];
          for (int i = 0; i < 4; ++i) {
            sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = static_cast<std::uint32_t>(from.d[i]);
          }
        }
        emulator::multiply_bytes(kUnsigned, left[0], right[0], sums[0]);
        for (int lane = 0; lane < 32; ++lane) {
          auto& to = *static_cast<ByteFragments*>(operands[lane]);
          for (int i = 0; i < 4; ++i) {
            to.d[i] = static_cast<std::int32_t>(sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
          }
        }
      },
      &own);
  for (int i = 0; i < 4; ++i) d[i] = own.d[i];
}

inline void mma_s8_16x8x32(std::int32_t (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  multiply_bytes<false>(d, a, b0, b1);
}
inline void mma_s8_16x8x32(std::int32_t (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                           const std::int32_t (&c)[4]) {
  std::copy(std::begin(c), std::end(c), d);
  mma_s8_16x8x32(d, a, b0, b1);
}
inline void mma_s8_16x8x16(std::int32_t (&d)[4], const std::uint32_t (&a)[2], std::uint32_t b,
                           const std::int32_t (&c)[4]) {
  mma_s8_16x8x32(d, {a[0], a[1], 0, 0}, b, 0, c);
}
inline void mma_u8s8_16x8x32(std::int32_t (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  multiply_bytes<true>(d, a, b0, b1);
}
inline void mma_u8s8_16x8x32(std::int32_t (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                             const std::int32_t (&c)[4]) {
  for (int i = 0; i < 4; ++i) d[i] = c[i];
  mma_u8s8_16x8x32(d, a, b0, b1);
}
inline void mma_u8s8_16x8x16(std::int32_t (&d)[4], const std::uint32_t (&a)[2], std::uint32_t b) {
  mma_u8s8_16x8x32(d, {a[0], a[1], 0, 0}, b, 0);
}

inline std::uint32_t clipped_bytes(std::uint32_t first, std::uint32_t second, std::uint32_t third,
                                   std::uint32_t fourth) {
  const auto clipped = [](std::uint32_t word) {
    return static_cast<std::uint32_t>(std::clamp(static_cast<std::int32_t>(word), 0, 255));
  };
  return clipped(first) | clipped(second) << 8 | clipped(third) << 16 | clipped(fourth) << 24;
}

inline std::uint32_t larger_pairs(std::uint32_t a, std::uint32_t b) {
  const auto larger = [&](unsigned shift) {
    const auto of_a = static_cast<std::int16_t>(a >> shift);
    const auto of_b = static_cast<std::int16_t>(b >> shift);
    return static_cast<std::uint32_t>(static_cast<std::uint16_t>(of_a < of_b ? of_b : of_a)) << shift;
  };
  return larger(0) | larger(16);
}
inline std::uint32_t add_clipped_pairs(std::uint32_t a, std::uint32_t b, std::uint32_t most) {
  std::uint32_t result = 0;
  for (unsigned shift = 0; shift < 32; shift += 16) {
    const auto of = [&](std::uint32_t word) {
      return static_cast<std::int32_t>(static_cast<std::int16_t>(word >> shift));
    };
    const auto sum = static_cast<std::int32_t>(static_cast<std::int16_t>(of(a) + of(b)));
    result |= static_cast<std::uint32_t>(std::max(std::min(sum, of(most)), 0)) << shift;
  }
  return result;
}

inline std::uint32_t load_global_or(const void* from, bool present, std::uint32_t otherwise) {
  if (!present) return otherwise;
  if (reinterpret_cast<std::uintptr_t>(from) % 4 != 0) emulator::fail("an access to memory that is not aligned");
  std::uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

}  // namespace mobicuda::kernels::ptx
