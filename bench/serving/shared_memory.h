#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mobicuda::bench {

/// POSIX shared memory under a name that no other process uses; gone with the object.
class SharedMemory {
 public:
  /// A name that is in use nowhere, with `what` in it.
  static std::string unused_name(const std::string& what);

  /// Throws std::system_error.
  SharedMemory(const std::string& what, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// As shm_open() takes it, with its slash.
  const std::string& key() const noexcept { return key_; }
  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::string key_;
  std::span<std::byte> bytes_;
};

}  // namespace mobicuda::bench
