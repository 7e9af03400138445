#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/options.h"

namespace mobicuda::bench {

/// What an implementation runs on. Those that share one are timed interleaved.
enum class Processor { Cpu, Gpu };

/// One of the library's backends, by the name that --impl takes.
struct Implementation {
  std::string name;
  Processor processor = Processor::Cpu;
  std::vector<Precision> precisions;
  std::string unavailable;  ///< why it cannot run here; empty when it can
  std::unique_ptr<Backend> (*make)() = nullptr;
};

/// All implementations, the fastest first, whether they can run here or not.
std::vector<Implementation> list_implementations(int device);

/// An implementation at a precision: what is compiled, timed and compared.
struct Case {
  std::string implementation;
  Precision precision = Precision::Fp32;
  Processor processor = Processor::Cpu;
  std::unique_ptr<Backend> (*make)() = nullptr;
  std::optional<int> threads;  ///< of cpu, where several are compared

  std::string label() const;  ///< "custom fp16"
};

struct Selection {
  std::vector<Case> cases;  ///< the reference is cases[reference]
  std::size_t reference = 0;
  std::vector<std::string> notes;  ///< what was left out, and why
};

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
