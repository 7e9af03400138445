#include "pictures/source/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "pictures/decode/picture_error.h"

namespace mobicuda::pictures {
namespace {

std::string reason(int number) { return std::generic_category().message(number); }

}  // namespace

File::File(const std::filesystem::path& path)
    : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (descriptor_ < 0) throw PictureError("cannot be opened: " + reason(errno));
  struct stat status {};
  const bool known = fstat(descriptor_, &status) == 0;
  if (known && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    return;
  }
  const std::string why = known ? "is not a regular file" : "cannot be read: " + reason(errno);
  close(descriptor_);
  throw PictureError(why);
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::size_t File::read(std::int64_t offset, std::span<std::uint8_t> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(descriptor_, out.data() + done, out.size() - done, offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw PictureError("cannot be read: " + reason(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace mobicuda::pictures
