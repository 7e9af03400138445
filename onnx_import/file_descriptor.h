#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace mobicuda::onnx_import {

/// Owns an open file.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// What errno says, e.g. "No such file or directory".
std::string error_text(int error_number);

/// Opens a file that the caller of the library named. Throws Error(io).
FileDescriptor open_file(const std::filesystem::path& path);
/// Opens a folder for use with open_beneath(). Throws Error(io).
FileDescriptor open_folder(const std::filesystem::path& path);

/// Size of a regular file. Throws Error(io) on anything else.
std::int64_t file_size(const FileDescriptor& file);

/// Reads exactly bytes.size() bytes at the offset. Throws Error(io) when the file ends before.
void read_exactly(const FileDescriptor& file, std::int64_t offset, std::span<std::byte> bytes);

}  // namespace mobicuda::onnx_import
