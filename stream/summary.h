#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "stream/config.h"
#include "stream/items.h"

namespace mobicuda::stream {

/// What one processor did of one model.
struct Share {
  Item items = 0;
  Item failed = 0;            ///< of these, pictures that were not classified
  double worker_seconds = 0;  ///< of all its workers together
};

struct ModelSummary {
  std::string name;
  std::uint64_t file_bytes = 0;
  std::int64_t weight_bytes = 0;  ///< of an engine; 0 where none was kept
};

struct ProcessorSummary {
  std::string name;
  std::optional<int> gpu;
  std::size_t workers = 1;
  std::vector<Share> models;           ///< in the order of the models
  std::string lost;                    ///< why it stopped before the end; empty where it did not
  std::optional<double> load_percent;  ///< mean over the run
  std::optional<double> power_w;

  Item items() const;
  double worker_seconds() const;
};

/// How a stream went.
struct Summary {
  Item items = 0;        ///< of the stream
  Item done_before = 0;  ///< by earlier runs
  Item done = 0;         ///< by this one
  Item failed = 0;       ///< of `done`, pictures that were not classified
  bool interrupted = false;
  double seconds = 0;  ///< from the first unit to the last result; models were loaded before, where they are preloaded
  double load_seconds = 0;
  std::vector<ModelSummary> models;
  std::vector<ProcessorSummary> processors;

  bool complete() const { return done_before + done == items; }
};

/// Tables for people, at most 120 columns wide.
void print_summary(std::ostream& out, const Summary& summary, const Config& config);

/// summary.json: docs/stream.md tells what each field means.
std::string summary_json(const Summary& summary, const Config& config);

}  // namespace mobicuda::stream
