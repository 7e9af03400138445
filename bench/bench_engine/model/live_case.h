#pragma once

#include <memory>

#include <mobicuda/engine.h>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/results.h"

namespace mobicuda::bench {

/// A compiled case with its session, while a batch size is being measured.
struct LiveCase {
  const Case* what = nullptr;
  std::shared_ptr<const Engine> engine;
  std::unique_ptr<Session> session;
  CaseResult result;
};

}  // namespace mobicuda::bench
