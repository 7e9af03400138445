#pragma once

#include <cstdint>
#include <functional>

#include <mobicuda/engine.h>

#include "bench_engine/measure/statistics.h"

namespace mobicuda::bench {

/// Before each call after a rest, milliseconds: long enough for a GPU and a core to lose what keeps them ready.
inline constexpr double kRestMs = 2;

/// Wall time of calls that find an idle GPU: Session::execute() and synchronize(), input in place; milliseconds.
struct SingleCalls {
  Statistics warm;        ///< one after the other
  Statistics after_rest;  ///< each after kRestMs of rest
  Statistics swept;       ///< each after other data passed through the GPU's L2 cache
};

/// Calls of `session`, which belongs to a GPU engine on the current device, with n pictures. Ends early, with what it
/// has, once `stop` returns true.
SingleCalls measure_single_calls(Session& session, std::int64_t n, const std::function<bool()>& stop);

}  // namespace mobicuda::bench
