#pragma once

#include <iosfwd>
#include <optional>

#include "bench_engine/model/options.h"

namespace mobicuda::bench {

/// What came of the command line: options to run with, or an exit code when everything is said already.
struct ParsedCommandLine {
  Options options;
  std::optional<int> exit_code;
};

/// Reads the command line. --help and --version go to `out`; mistakes to `err`, with exit code kExitUsage.
ParsedCommandLine parse_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace mobicuda::bench
