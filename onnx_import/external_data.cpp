#include "external_data.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mobicuda/error.h>

#include "text.h"

namespace mobicuda::onnx_import {
namespace {

// O_NONBLOCK: a FIFO must not hang us before fstat() tells what it is.
constexpr int kFileFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

std::string where(const std::string& location) { return "external data file " + in_quotes(location); }

Error refused(const std::string& location, const std::string& reason) {
  return {ErrorCode::invalid_model, where(location), reason,
          "external data must be a regular file in the model's folder or below it"};
}

std::vector<std::string> components(const std::string& location) {
  if (location.empty()) throw refused(location, "the location is empty");
  if (location.find('\0') != std::string::npos) throw refused(location, "the location contains a NUL character");
  if (location.front() == '/') throw refused(location, "the location is an absolute path");
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= location.size();) {
    const std::size_t end = std::min(location.find('/', begin), location.size());
    const std::string part = location.substr(begin, end - begin);
    if (part == "..") throw refused(location, "the location contains '..'");
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  if (parts.empty()) throw refused(location, "the location names no file");
  return parts;
}

int open_by_kernel(int folder, const std::string& location) {
  open_how how{};
  how.flags = static_cast<unsigned>(kFileFlags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, folder, location.c_str(), &how, sizeof(how)));
}

int open_each_component(int folder, const std::vector<std::string>& parts) {
  FileDescriptor current;
  int at = folder;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    FileDescriptor next(::openat(at, parts[i].c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.is_open()) return -1;
    current = std::move(next);
    at = current.get();
  }
  return ::openat(at, parts.back().c_str(), kFileFlags | O_NOFOLLOW);
}

}  // namespace

FileDescriptor open_beneath(const FileDescriptor& folder, const std::string& location, OpenMethod method) {
  const std::vector<std::string> parts = components(location);
  int fd = -1;
  if (method == OpenMethod::Openat2) fd = open_by_kernel(folder.get(), location);
  // EPERM: container sandboxes answer so to system calls they do not know.
  if (method == OpenMethod::EachComponent || (fd < 0 && (errno == ENOSYS || errno == EPERM))) {
    fd = open_each_component(folder.get(), parts);
  }
  FileDescriptor file(fd);
  if (!file.is_open()) {
    const int error_number = errno;
    if (error_number == ELOOP || error_number == EXDEV || error_number == ENOTDIR) {
      throw refused(location, "the path goes through a symbolic link or something else that is not a folder");
    }
    throw Error(
        ErrorCode::io, where(location), "cannot be opened: " + error_text(error_number),
        error_number == ENOENT ? "it holds weights, and must lie where the model's folder has it: copy it along" : "");
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw Error(ErrorCode::io, where(location), "cannot be read: " + error_text(errno));
  }
  if (!S_ISREG(status.st_mode)) throw refused(location, "it is not a regular file");
  if (status.st_nlink != 1) {
    throw refused(location,
                  "it has " + std::to_string(status.st_nlink) + " hard links, it may be a file from elsewhere");
  }
  return file;
}

FileDescriptor ExternalData::open(const ExternalLocation& place, std::int64_t bytes) const {
  if (!folder_) {
    throw Error(ErrorCode::invalid_model, where(place.location), "a model in memory has no folder to find it in",
                "pass external_data_folder, or load the model from its file");
  }
  FileDescriptor file = open_beneath(open_folder(*folder_), place.location);
  const std::int64_t size = file_size(file);
  const std::string here = where(place.location);
  if (place.offset < 0 || place.offset > size) {
    throw Error(
        ErrorCode::invalid_model, here,
        "offset " + std::to_string(place.offset) + " lies outside the file of " + std::to_string(size) + " bytes");
  }
  const std::int64_t length = place.length.value_or(size - place.offset);
  if (length != bytes) {
    throw Error(ErrorCode::invalid_model, here,
                "length " + std::to_string(length) + ", but shape and type need " + std::to_string(bytes) + " bytes");
  }
  if (length > size - place.offset) {
    throw Error(ErrorCode::invalid_model, here,
                "offset " + std::to_string(place.offset) + " + length " + std::to_string(length) +
                    " lies past the end of the file of " + std::to_string(size) + " bytes");
  }
  return file;
}

void ExternalData::check(const ExternalLocation& place, std::int64_t bytes) const { open(place, bytes); }

void ExternalData::read(const ExternalLocation& place, std::span<std::byte> bytes) const {
  const FileDescriptor file = open(place, static_cast<std::int64_t>(bytes.size()));
  try {
    read_exactly(file, place.offset, bytes);
  } catch (const Error& error) {
    throw error.inside(where(place.location));
  }
}

}  // namespace mobicuda::onnx_import
