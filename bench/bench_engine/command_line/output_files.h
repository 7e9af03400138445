#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench_engine/model/options.h"

namespace mobicuda::bench {

/// A file and the option that names it.
struct NamedFile {
  std::string option;
  std::filesystem::path path;
};

/// Throws UsageError where an output would overwrite an input or another output. Empty paths are none.
void require_apart(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

/// require_apart() of all files that the options name.
void check_outputs(const Options& options);

/// Throws Error(io) where an output of the options cannot be written, before anything is measured in vain.
void require_writable(const Options& options);

}  // namespace mobicuda::bench
