#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>

namespace mobicuda::bench {

/// "cpu fp32", "cpu fp32, 3 threads".
std::string case_label(const std::string& implementation, Precision precision, std::optional<int> threads);

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

}  // namespace mobicuda::bench
