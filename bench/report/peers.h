#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "report/json_field.h"

namespace mobicuda::bench::report {

/// One configuration of somebody else's engine, as the scripts in bench/peers measure it.
struct PeerResult {
  std::string engine;     ///< "PyTorch CUDA graph"
  std::string family;     ///< the same for modes of which only the fastest counts in charts: "PyTorch compile"
  std::string network;    ///< empty: not told
  std::string format;     ///< of memory, as "nchw"; empty: not told
  std::string precision;  ///< "fp16"
  std::int64_t batch = 1;
  double median_ms = 0;
  double mean_ms = 0;
  double p90_ms = 0;
  std::size_t runs = 0;
  bool on_cpu = false;

  std::string label() const { return engine + ' ' + precision + (format.empty() ? "" : ", " + format); }
  double pictures_per_second() const { return median_ms > 0 ? 1e3 * static_cast<double>(batch) / median_ms : 0; }
};

struct Peers {
  std::vector<PeerResult> results;
  std::vector<std::string> setup;   ///< an engine and what it ran on, with versions
  std::vector<std::string> absent;  ///< engines that could not run, and why
  std::vector<std::string> failed;  ///< configurations that failed, and why
};

/// Adds a document of bench/peers, or an object whose `peers` or whose members are such documents.
void add_peers(const Field& f, Peers& peers);

/// Adds a file of them. Throws ReportError naming the file and the field.
void add_peers(const std::filesystem::path& file, Peers& peers);

/// For each family, network, precision and batch the fastest.
std::vector<PeerResult> fastest_of_families(const Peers& peers);

/// Leaves out what ran another network than MobileNetV2.
void keep_mobilenet_v2(Peers& peers);

}  // namespace mobicuda::bench::report
