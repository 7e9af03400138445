#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/saved_engine.h>

#include "timing/timing_cache.h"

namespace mobicuda {

/// A choice that times of single layers do not decide: see TimedAnswer::rival. The rival is a variant of the same
/// kernel and asks for the same choices after it.
struct ContestedChoice {
  std::size_t position = 0;  ///< in ChosenLayers::choices
  std::string layer;         ///< as the network names it, for messages
  std::string kernel;        ///< of which both are variants: "gemm", ...
  std::string rival;         ///< SavedChoice::variant
  std::string reason;        ///< LayerInfo::reason, should the rival take the place
  std::size_t reason_at =
      0;  ///< position of the choice that keeps the reason: a block's form stands before its variant
};

/// How the layers of a network run.
struct ChosenLayers {
  std::vector<SavedChoice> choices;        ///< SavedEngine::choices
  std::vector<ContestedChoice> contested;  ///< in the order of their positions
};

/// Of one run of a network, in microseconds.
struct NetworkTimes {
  double chosen = 0;
  double rival = 0;
  double noise = 0;  ///< what the difference of the two may be wrong by
};

/// Runs a network so many times, and gives the milliseconds of each run.
using NetworkRuns = std::function<std::vector<double>(int iterations)>;

/// Times two networks in turns, so that clock and temperature drift for both alike. `rival` is `chosen` and the median
/// difference of neighbouring turns; the noise is what these differences vary by.
NetworkTimes time_in_turns(const NetworkRuns& chosen, const NetworkRuns& rival);

/// What the times of a network depend on besides its choices.
struct TimedNetwork {
  std::string machine;     ///< the fields of a timing cache before the shape
  std::string graph;       ///< print() of the graph that is lowered
  std::int64_t batch = 1;  ///< images in a run
  bool bytes = false;      ///< images in bytes
};

/// Times the network with the first choices and with the second ones. May throw Error(out_of_memory).
using NetworkTimer =
    std::function<NetworkTimes(const std::vector<SavedChoice>& chosen, const std::vector<SavedChoice>& rival)>;

/// The choices, of which each contested one is the rival where the network is clearly faster with it. Times that the
/// cache lacks are measured and added; with `require` they are an Error(invalid_argument). Where memory runs out, what
/// is not measured yet stays as it was chosen; `log`, which may be empty, has a warning then.
std::vector<SavedChoice> confirm_choices(TimingCache& cache, const TimedNetwork& network, ChosenLayers layers,
                                         bool require, const LogCallback& log, const NetworkTimer& measure);

}  // namespace mobicuda
