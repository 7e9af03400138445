#pragma once

#include <stdexcept>

namespace mobicuda::bench {

/// What bench_engine returns to the shell; docs/bench_engine.md lists them for users.
enum ExitCode : int {
  kExitOk = 0,
  kExitRuntime = 1,
  kExitUsage = 2,
  kExitThresholdMissed = 3,
  kExitNoDevice = 4,
  kExitInterrupted = 130,  ///< 128 + SIGINT, as shells expect
};

/// The command line asks for something that makes no sense; ends in kExitUsage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace mobicuda::bench
