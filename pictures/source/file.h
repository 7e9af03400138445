#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace mobicuda::pictures {

/// A regular file that is open for reading. Reading is thread-safe.
class File {
 public:
  /// Throws PictureError: what opening it failed at, or that it is no regular file. Never waits, as for a FIFO's
  /// writer.
  explicit File(const std::filesystem::path& path);
  ~File();
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}
  File& operator=(File&&) = delete;

  std::int64_t size() const noexcept { return size_; }  ///< when it was opened
  /// Fills `out` from `offset`; returns the bytes that were there. Throws PictureError.
  std::size_t read(std::int64_t offset, std::span<std::uint8_t> out) const;

 private:
  int descriptor_;
  std::int64_t size_ = 0;
};

}  // namespace mobicuda::pictures
