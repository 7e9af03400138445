#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/common/code_name.h"

namespace mobicuda {

/// Machine code, or PTX, of one kernel.
struct DeviceCode {
  std::string kernel;  ///< its name in the code
  std::string image;   ///< what cuLibraryLoadData() takes
};

/// NVRTC, the CUDA Toolkit's compiler for run time, opened when it is needed: it compiles the device headers that are
/// embedded in the library. Safe from several threads.
class CodeCompiler {
 public:
  virtual ~CodeCompiler() = default;
  CodeCompiler(const CodeCompiler&) = delete;
  CodeCompiler& operator=(const CodeCompiler&) = delete;

  /// `library` names the file; empty: it is looked for by name, and in the toolkit that built mobicuda. Throws
  /// Error(device_unavailable) where there is none of the toolkit's major version.
  static std::unique_ptr<const CodeCompiler> open(const std::filesystem::path& library);

  /// "NVRTC 13.0".
  virtual std::string version() const = 0;
  /// What is compiled for a GPU of that capability: "sm_90", "sm_90a" with `wgmma`; of a GPU that this compiler does
  /// not know the newest architecture before it, as PTX: "compute_90". Throws Error(unsupported) where none fits.
  virtual std::string architecture(int capability, bool wgmma) const = 0;
  /// Throws Error(internal) with the compiler's words.
  virtual DeviceCode compile(const kernels::CodeName& name, const std::string& architecture) const = 0;

 protected:
  CodeCompiler() = default;
};

}  // namespace mobicuda
