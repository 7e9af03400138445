#include "bench_engine/command_line/input_files.h"

#include <system_error>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {

namespace fs = std::filesystem;

std::string why_no_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) return {};
  if (status.type() == fs::file_type::not_found) return "no such file: " + path.string();
  if (!fs::status_known(status)) return path.string() + ": " + error.message();
  return path.string() + (fs::is_directory(status) ? " is a folder, not a file" : " is not a regular file");
}

void require_file(const fs::path& path, const std::string& option) {
  if (path.empty()) return;
  const std::string why = why_no_file(path);
  if (!why.empty()) throw UsageError(option + ": " + why);
}

}  // namespace mobicuda::bench
