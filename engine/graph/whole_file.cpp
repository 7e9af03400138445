#include "graph/whole_file.h"

#include <atomic>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace mobicuda {
namespace {

namespace fs = std::filesystem;

std::error_code last_error() { return {errno, std::generic_category()}; }

// A file that is not there yet; leaves none where it fails.
std::error_code write_new(const fs::path& path, std::initializer_list<std::span<const std::byte>> parts) {
  constexpr mode_t kMode = 0666;  // less the process's umask, as for any new file
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (file < 0) return last_error();
  std::error_code failure;
  for (std::span<const std::byte> left : parts) {
    while (!left.empty() && !failure) {
      const ssize_t written = ::write(file, left.data(), left.size());
      if (written >= 0) {
        left = left.subspan(static_cast<std::size_t>(written));
      } else if (errno != EINTR) {
        failure = last_error();
      }
    }
  }
  if (::close(file) != 0 && !failure) failure = last_error();
  if (failure) ::unlink(path.c_str());
  return failure;
}

}  // namespace

std::error_code write_whole_file(const fs::path& path, std::initializer_list<std::span<const std::byte>> parts) {
  static std::atomic<unsigned> count{0};
  fs::path unfinished = path;
  unfinished += "." + std::to_string(getpid()) + "." + std::to_string(count.fetch_add(1));
  unfinished += kUnfinishedFile;
  std::error_code failure = write_new(unfinished, parts);
  if (failure) return failure;
  fs::rename(unfinished, path, failure);
  if (!failure) return {};
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  return failure;
}

}  // namespace mobicuda
