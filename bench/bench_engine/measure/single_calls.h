#pragma once

#include <cstdint>
#include <functional>

#include <mobicuda/engine.h>

#include "bench_engine/model/times.h"

namespace mobicuda::bench {

/// Before each call after a rest, milliseconds: long enough for a GPU and a core to lose what keeps them ready.
inline constexpr double kRestMs = 2;

/// Calls of `session`, which belongs to a GPU engine on the current device, with n pictures. Ends early, with what it
/// has, once `stop` returns true.
SingleCalls measure_single_calls(Session& session, std::int64_t n, const std::function<bool()>& stop);

}  // namespace mobicuda::bench
