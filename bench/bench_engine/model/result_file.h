#pragma once

#include <filesystem>

#include "bench_engine/model/results.h"

namespace mobicuda::bench {

/// out.npy -> out.custom-fp16-b8.npy, for options that write a file for each result.
std::filesystem::path result_file(std::filesystem::path path, const CaseResult& result);

}  // namespace mobicuda::bench
