#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include <mobicuda/error.h>
#include <mobicuda/version.h>

namespace mobicuda::c_api {

/// Structures begin with their size in bytes, a multiple of this: no field lies across such a boundary, or after a gap,
/// so that a size never cuts one.
inline constexpr std::size_t kStructStep = 8;

/// More than any version's structures: what is larger was not filled in.
inline constexpr std::size_t kMaxStructBytes = 4096;

/// What struct_size says. Throws Error(invalid_argument) on a size that no version of the structure has.
template <class Struct>
std::size_t given_size(const char* name, const Struct* given) {
  static_assert(std::is_standard_layout_v<Struct> && std::is_trivially_copyable_v<Struct>);
  static_assert(offsetof(Struct, struct_size) == 0 && sizeof(Struct) % kStructStep == 0);
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < kStructStep || size > kMaxStructBytes || size % kStructStep != 0) {
    throw Error(ErrorCode::invalid_argument, name, "struct_size is " + std::to_string(size) + ", which no version has",
                "set struct_size to sizeof(" + std::string(name) + ")");
  }
  return size;
}

/// A structure of options as this version knows it: fields that the caller's has not are 0. Throws Error(unsupported)
/// where fields that this version does not know are not 0.
template <class Struct>
Struct read_options(const char* name, const Struct* given) {
  Struct known{};
  if (given == nullptr) return known;
  const std::size_t size = given_size(name, given);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      throw Error(ErrorCode::unsupported, name,
                  "byte " + std::to_string(i) + " of " + std::to_string(size) +
                      " is set, which belongs to a field that version " + MOBICUDA_VERSION_STRING + " (" +
                      std::to_string(sizeof(Struct)) + " bytes) does not have",
                  "leave fields that are newer than the library at 0, or use a newer library");
    }
  }
  std::memcpy(&known, given, std::min(size, sizeof(Struct)));
  return known;
}

/// Fills as much of a caller's structure as struct_size says; what this version does not know becomes 0.
template <class Struct>
void write_info(const char* name, const Struct& value, Struct* given) {
  const std::size_t size = given_size(name, given);
  auto* bytes = reinterpret_cast<unsigned char*>(given);
  const auto* from = reinterpret_cast<const unsigned char*>(&value);
  const std::size_t known = std::min(size, sizeof(Struct));
  std::copy(from + sizeof size, from + known, bytes + sizeof size);
  std::fill(bytes + known, bytes + size, static_cast<unsigned char>(0));
}

}  // namespace mobicuda::c_api
