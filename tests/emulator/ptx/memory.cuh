// kernels/ptx/memory.cuh for the emulator. Addresses must be multiples of what is accessed, as on the GPU.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

inline std::uint32_t shared_address(const void* pointer) { return emulator::shared_address(pointer); }

template <std::size_t kBytes>
void check_alignment(std::uintptr_t address) {
  if (address % kBytes != 0) emulator::fail("an access to memory that is not aligned");
}

template <class T>
T load_global(const void* from) {
  check_alignment<sizeof(T)>(reinterpret_cast<std::uintptr_t>(from));
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <int kWords>
void load_global_words(const unsigned char* from, std::uint32_t* words) {
  check_alignment<kWords * 4>(reinterpret_cast<std::uintptr_t>(from));
  std::memcpy(words, from, kWords * 4);
}
template <int kWords>
void load_global_words_if(bool present, const unsigned char* from, std::uint32_t* words) {
  std::memset(words, 0, kWords * 4);
  if (present) load_global_words<kWords>(from, words);
}
inline void load_global_or_zero(const void* from, unsigned present, uint2& words) {
  words = present != 0 ? load_global<uint2>(from) : uint2{};
}
inline void load_global_or_zero(const void* from, unsigned present, uint4& words) {
  words = present != 0 ? load_global<uint4>(from) : uint4{};
}
template <int kOffset>
void load_global_at(const void* from, uint4& words) {
  words = load_global<uint4>(static_cast<const unsigned char*>(from) + kOffset);
}
template <class T>
T load_global_nc(const void* from) {
  return load_global<T>(from);
}
inline void prefetch_to_l2(const void* from) { emulator::lines_brought().push_back(from); }
inline void load_global_volatile_if(bool present, std::uintptr_t from, std::uint32_t& word) {
  word = present ? load_global<std::uint32_t>(reinterpret_cast<const void*>(from)) : 0;
}
inline void load_global_volatile_if(bool present, std::uintptr_t from, std::uint32_t (&words)[2]) {
  const uint2 pair = present ? load_global<uint2>(reinterpret_cast<const void*>(from)) : uint2{};
  words[0] = pair.x;
  words[1] = pair.y;
}
template <int kWords>
void store_global(void* to, const std::uint32_t (&words)[kWords]) {
  check_alignment<kWords * 4>(reinterpret_cast<std::uintptr_t>(to));
  std::memcpy(to, words, sizeof words);
}
template <int kWords>
void store_global_if(bool present, void* to, const std::uint32_t (&words)[kWords]) {
  if (present) store_global(to, words);
}

template <class T>
T load_shared(std::uint32_t from) {
  check_alignment<sizeof(T)>(from);
  T value;
  std::memcpy(&value, emulator::shared_at(from, sizeof value), sizeof value);
  return value;
}
template <int kWords>
void load_shared_words(std::uint32_t from, std::uint32_t* words) {
  check_alignment<kWords * 4>(from);
  std::memcpy(words, emulator::shared_at(from, kWords * 4), kWords * 4);
}
template <class T>
void store_shared_bytes(std::uint32_t to, const T& value) {
  check_alignment<sizeof(T)>(to);
  std::memcpy(emulator::shared_at(to, sizeof value), &value, sizeof value);
  emulator::note_write(to, sizeof value);
}
inline void store_shared(std::uint32_t to, std::uint32_t word) { store_shared_bytes(to, word); }
inline void store_shared(std::uint32_t to, const std::uint32_t (&words)[4]) { store_shared_bytes(to, words); }
inline void store_shared(std::uint32_t to, float2 pair) { store_shared_bytes(to, pair); }
inline void store_shared(std::uint32_t to, float4 v) { store_shared_bytes(to, v); }
inline void store_shared(std::uint32_t to, const unsigned char* pointer) { store_shared_bytes(to, pointer); }
inline void store_shared_if(bool present, std::uint32_t to, uint2 words) {
  if (present) store_shared_bytes(to, words);
}
inline void store_shared_half(std::uint32_t to, std::uint32_t word) {
  store_shared_bytes(to, static_cast<std::uint16_t>(word));
}
inline void clear_shared(std::uint32_t to) { store_shared_bytes(to, uint4{}); }
inline void store_shared_volatile(std::uint32_t to, std::uint32_t word) { store_shared_bytes(to, word); }

}  // namespace mobicuda::kernels::ptx
