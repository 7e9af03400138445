#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/document.h"
#include "report/peers.h"
#include "report/record.h"

namespace mobicuda::bench::report {

/// A file of --json, read back. Samples and outputs are not in it.
struct ReportFile {
  std::filesystem::path path;
  std::string network;  ///< of a record, where it says so: "MobileNetV2"
  std::string version;
  std::vector<std::string> command_line;
  std::vector<std::pair<std::string, std::string>> options;  ///< name and value as the file has them
  bool pictures = false;                                     ///< --input uint8
  int streams = 0;                                           ///< --infStreams
  Report report;
  Peers peers;                          ///< of a record, or added
  std::optional<MachineRecord> record;  ///< of bench/results
  std::vector<CaseResult> from_host;    ///< of a record: pictures in bytes, from host to host
};

/// Reads a document of --json, or the measured record of a machine (bench/results): its timed and its classified
/// cases. Throws ReportError naming the file and the field: io when it cannot be read, invalid_argument when it is
/// neither.
ReportFile read_report(const std::filesystem::path& path);

/// Any JSON file. Throws ReportError naming it.
Field::Json read_json(const std::filesystem::path& path);

/// The same of a document in memory; `name` stands for the file in errors.
ReportFile read_document(const Field::Json& json, const std::filesystem::path& name);

/// The same from text.
ReportFile parse_report(const std::string& text, const std::filesystem::path& name);

}  // namespace mobicuda::bench::report
