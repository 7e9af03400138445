#include "file_descriptor.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mobicuda/error.h>

namespace mobicuda::onnx_import {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::string error_text(int error_number) { return std::generic_category().message(error_number); }

FileDescriptor open_file(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO without a writer must not hang us.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) throw Error(ErrorCode::io, "", "cannot be opened: " + error_text(errno));
  return file;
}

FileDescriptor open_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.empty() ? std::filesystem::path(".") : path;
  FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open()) {
    throw Error(ErrorCode::io, "folder '" + folder.string() + "'", "cannot be opened: " + error_text(errno));
  }
  return file;
}

std::int64_t file_size(const FileDescriptor& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw Error(ErrorCode::io, "", "cannot be read: " + error_text(errno));
  if (S_ISDIR(status.st_mode)) throw Error(ErrorCode::io, "", "is a folder, not a file");
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::io, "", "is not a regular file");
  return status.st_size;
}

void read_exactly(const FileDescriptor& file, std::int64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(ErrorCode::io, "", "cannot be read: " + error_text(errno));
    if (count == 0) throw Error(ErrorCode::io, "", "became shorter while it was read");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

}  // namespace mobicuda::onnx_import
