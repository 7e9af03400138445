#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bench_engine/results.h"

namespace mobicuda::bench {

/// A file of --json, read back. Samples, outputs and shapes of layers are not in it.
struct ReportFile {
  std::filesystem::path path;
  std::string version;
  std::vector<std::string> command_line;
  std::vector<std::pair<std::string, std::string>> options;  ///< name and value as the file has them
  bool pictures = false;                                     ///< --input uint8
  int streams = 0;                                           ///< --infStreams
  Report report;
};

/// Reads a document of --json, or the measured record of a machine (bench/results): its timed and its classified
/// cases. Throws Error naming the file and the field: io when it cannot be read, invalid_argument when it is neither.
ReportFile read_report(const std::filesystem::path& path);

/// The same from text; `name` stands for the file in errors.
ReportFile parse_report(const std::string& text, const std::filesystem::path& name);

}  // namespace mobicuda::bench
