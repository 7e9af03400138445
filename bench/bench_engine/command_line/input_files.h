#pragma once

#include <filesystem>
#include <string>

namespace mobicuda::bench {

/// "no such file: m.onnx", "m.onnx is a folder, not a file" and the like; empty where there is a regular file.
std::string why_no_file(const std::filesystem::path& path);

/// Throws UsageError, which names the option, where why_no_file() has something to say. An empty path is none.
void require_file(const std::filesystem::path& path, const std::string& option);

}  // namespace mobicuda::bench
