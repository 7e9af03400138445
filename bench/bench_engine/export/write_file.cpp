#include "bench_engine/export/write_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <mobicuda/error.h>

namespace mobicuda::bench {

void write_file(const std::filesystem::path& path, const std::string& content) {
  errno = 0;
  std::ofstream stream(path, std::ios::binary);
  stream << content;
  stream.close();
  if (stream) return;
  throw Error(ErrorCode::io, path.string(),
              "cannot be written" + (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
}

}  // namespace mobicuda::bench
