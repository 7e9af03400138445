#pragma once

#include <filesystem>
#include <string>

namespace mobicuda::bench {

/// Writes the whole content in place of what was there. Throws Error(io).
void write_file(const std::filesystem::path& path, const std::string& content);

}  // namespace mobicuda::bench
