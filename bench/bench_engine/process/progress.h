#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

#include "bench_engine/process/phase_range.h"

namespace mobicuda::bench {

/// Says how far a run is: a bar that redraws itself on a terminal, a line for each step elsewhere. Nothing is
/// written while something is being timed: steps begin before.
class Progress {
 public:
  enum class Style { Silent, Lines, Bar };

  Progress(std::ostream& out, Style style) : out_(out), style_(style) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// No ranges for profilers.
  void without_ranges() { ranges_ = false; }

  void set_steps(std::size_t steps) { steps_ = steps; }

  /// Begins the next step, for profilers too.
  void step(const std::string& what);

  /// Within the current step; a bar only.
  void within(std::size_t done, std::size_t all);

  /// Takes the bar away, so that others can print; the next step brings it back.
  void clear();

 private:
  void draw(double part, const std::string& detail);

  std::ostream& out_;
  Style style_;
  std::size_t steps_ = 0;
  std::size_t begun_ = 0;
  std::string what_;
  bool drawn_ = false;
  bool ranges_ = true;
  std::optional<PhaseRange> range_;  ///< of the current step
};

/// Silent where `quiet`, else by whether stderr is a terminal that can redraw a line.
Progress::Style stderr_style(bool quiet);

}  // namespace mobicuda::bench
