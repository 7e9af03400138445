#pragma once

#include <string>
#include <vector>

#include "stress/kernel_load.h"

namespace mobicuda::stress {

/// A kernel with variants.
struct KernelFamily {
  std::string name;
  std::vector<std::string> variants;  ///< all of them
  /// Every variant that this GPU runs, on a shape of the networks or one that has its borders; its name is that of the
  /// family, a '/', and the variant's, and may go on behind a blank.
  std::vector<KernelCase> cases;
  int oldest = 0;  ///< architecture whose code has the kernel
};

std::vector<KernelFamily> kernel_families();

}  // namespace mobicuda::stress
