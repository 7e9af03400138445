#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/measure/timing.h"

namespace mobicuda::bench {

/// Runs of `batch` pictures on the input in place. On a GPU an untimed one goes ahead of each burst, and those that are
/// short against a reading of the GPU's clock are timed several at a time: the burst then has fewer times, means of
/// runs.
TimedBurst device_burst(Session& session, std::int64_t batch, bool gpu);

/// Runs of `batch` pictures on the input in place, enqueued in a row, by the host's clock: each gets the same part of
/// it.
TimedBurst wall_burst(Session& session, std::int64_t batch);

/// From host to host, one after the other.
TimedBurst host_burst(Session& session, std::int64_t batch);

/// Results of several sessions in turn: each one's transfers overlap the others' kernels. The pipeline is as full
/// after the last timed result as before the first.
TimedBurst streams_burst(std::vector<std::shared_ptr<Session>> sessions, std::int64_t batch);

}  // namespace mobicuda::bench
