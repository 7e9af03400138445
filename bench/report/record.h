#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/json_field.h"

namespace mobicuda::bench::report {

/// A run of a test program or of a tool over one.
struct CheckRun {
  std::string tool;  ///< of compute-sanitizer; empty: the program alone
  std::string program;
  std::string filter;
  std::string summary;
  bool passed = false;
};

/// Median of one batch of a network.
struct NetworkTime {
  std::string network;
  std::string engine;
  std::int64_t batch = 1;
  double us = 0;
};

struct Requirement {
  std::string name;
  std::string target;
  std::string measured;
  bool met = false;
};

struct ConformanceCount {
  std::string implementation;
  std::int64_t cases = 0;
  std::int64_t passed = 0;
  std::int64_t failed = 0;
  // Absent: not told.
  std::optional<std::int64_t> passed_as_constant;
  std::optional<std::int64_t> refused_by_importer;
  std::optional<std::int64_t> refused_by_engine;
  std::optional<std::int64_t> out_of_scope;
};

/// What the record of a machine (bench/results) has beside cases and pictures.
struct MachineRecord {
  std::string date;
  std::string source_hash;
  std::vector<CheckRun> tests;
  std::vector<CheckRun> sanitizer;
  std::vector<ConformanceCount> conformance;
  std::vector<NetworkTime> networks;
  std::vector<std::string> refused;  ///< network and implementation, and why
  std::vector<std::string> lacking;  ///< networks of models/zoo that were not measured
  std::vector<Requirement> requirements;
};

MachineRecord read_record(const Field& f);

}  // namespace mobicuda::bench::report
