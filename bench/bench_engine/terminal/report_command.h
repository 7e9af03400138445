#pragma once

#include <iosfwd>

namespace mobicuda::bench {

/// `bench_engine report a.json [b.json] [--html FILE]`; argv[0] is the word "report". Returns the exit code. Throws
/// Error when a file cannot be read or written.
int report_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace mobicuda::bench
