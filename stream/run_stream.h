#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "stream/config.h"
#include "stream/journal.h"
#include "stream/summary.h"
#include "stream/worker.h"

namespace mobicuda::stream {

/// What run_stream() works on. All of it must stay until it returns.
struct Stream {
  const Config& config;
  const std::vector<std::string>& pictures;  ///< names, as results have them
  const std::vector<std::string>& labels;    ///< of classes; those beyond its end have none
  Journal& journal;
  std::function<void(Item done)> progress;  ///< called by several threads, one at a time, with earlier runs' counted in
  std::stop_token stop;                     ///< ends the stream between two results
};

/// Items of a stream. Throws Error(invalid_argument) where they are more than kMostItems.
Item items_of(const Config& config, std::size_t pictures);

/// Which stream this is, for the Journal.
Identity identity_of(const Config& config, const std::vector<std::string>& pictures);

/// Classifies what the journal lacks, each item once, on all processors; each of their workers has a thread of its own.
/// A processor that fails (device_lost, device_unavailable, out_of_memory) stops there, and the others take its items.
/// Throws Error where all failed, and any other Error of a worker or the journal, after the other workers have ended;
/// results that were handed over are in the journal in any case. The summary lacks the models.
Summary run_stream(const Stream& stream, std::vector<Processor>& processors);

}  // namespace mobicuda::stream
