#pragma once

#include <string>
#include <vector>

#include <mobicuda/types.h>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/options.h"

namespace mobicuda::bench {

/// All implementations, the fastest first, whether they can run here or not.
std::vector<Implementation> list_implementations(int device);

/// A case by its name, "cpu" or "cpu:fp64"; where it names no precision it has that one. Throws UsageError when there
/// is no such implementation or precision, and Error(device_unavailable), which says what `option` asked for, when it
/// cannot run here.
Case named_case(const std::string& text, Precision precision, const std::vector<Implementation>& implementations,
                const std::string& option);

/// Turns --impl, --precision and --reference into cases. An unknown name throws UsageError, and so does a
/// precision that NAME:PRECISION asks for in vain; an implementation that is named but cannot run here
/// throws Error(device_unavailable). What "all" names and cannot run, and pairs of the two lists that do not
/// exist, are noted; when nothing is left, that is an error too.
Selection select_cases(const Options& options, const std::vector<Implementation>& implementations);

}  // namespace mobicuda::bench
