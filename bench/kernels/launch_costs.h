#pragma once

namespace mobicuda::bench {

/// What launches cost on this GPU where kernels do next to nothing, microseconds.
struct LaunchCosts {
  double graph = 0;      ///< from one replay to the next of a CUDA graph with one kernel
  double boundary = 0;   ///< what each further kernel adds, as the custom engine launches it
  double hand_over = 0;  ///< the same where each kernel reads what the one before wrote, and writes for the next
};

/// Throws std::runtime_error with CUDA's text.
LaunchCosts measure_launch_costs();

}  // namespace mobicuda::bench
