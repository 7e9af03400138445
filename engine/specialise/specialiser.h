#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/saved_engine.h>

#include "kernels/common/code_name.h"
#include "kernels/common/device_traits.h"
#include "specialise/code_cache.h"
#include "specialise/code_compiler.h"

namespace mobicuda {

/// A specialised variant that is to run: its code, and who takes the kernel.
struct WantedKernel {
  kernels::CodeName code;
  /// KernelTable::provide: the kernel for GPUs of that capability, which stays loaded.
  std::function<void(int capability, const void* kernel)> give;
};

/// Gets the kernels of specialised variants for one GPU: from what the process has loaded, from a saved engine, from
/// the cache on disk, or from the compiler, several at a time. Compiler and GPU are left alone until they are needed.
/// Not thread-safe; several objects may work at once.
class Specialiser {
 public:
  Specialiser(const EngineOptions& options, const kernels::DeviceTraits& gpu);

  /// Why no code can be compiled; empty where it can. Opens the compiler.
  std::string why_not();

  /// Takes the code of a saved engine in addition.
  void add_saved(const std::vector<SavedCode>& saved);

  /// Gives each of them its kernel. On the current device. Throws Error(device_unavailable) without a compiler, where
  /// that is needed, and Error(internal) where it refuses the code.
  void provide(const std::vector<WantedKernel>& wanted);

  /// The code of all that was provided, for SavedEngine::code.
  const std::vector<SavedCode>& provided() const { return provided_; }

  /// One line about what was provided since the last report, to the options' log; nothing where that is nothing.
  void report();

 private:
  struct Counts {
    int loaded = 0;  ///< by the process before
    int saved = 0;
    int cached = 0;
    int compiled = 0;
    double compile_ms = 0;
    int threads = 0;
  };

  const CodeCompiler& compiler();
  std::string key_of(const kernels::CodeName& code, const std::string& architecture);
  void compile(const std::vector<const WantedKernel*>& wanted);
  void load(const WantedKernel& wanted, const SavedCode& code);

  EngineOptions options_;
  kernels::DeviceTraits gpu_;
  CodeCache cache_;
  std::unique_ptr<const CodeCompiler> compiler_;
  std::vector<SavedCode> saved_;
  std::vector<SavedCode> provided_;
  Counts counts_;
};

}  // namespace mobicuda
