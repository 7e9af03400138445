#include "bench_engine/export/write_file.h"

#include <fstream>

#include <mobicuda/error.h>

namespace mobicuda::bench {

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream stream(path, std::ios::binary);
  stream << content;
  stream.close();
  if (!stream) throw Error(ErrorCode::io, path.string(), "cannot be written");
}

}  // namespace mobicuda::bench
