#pragma once

// What an implementation makes of a test model of ONNX.

#include <string>
#include <vector>

#include <mobicuda/engine.h>

#include "onnx_case.h"

namespace mobicuda::conformance {

// ONNX's own tolerance for its test models (onnx/backend/test/runner).
inline constexpr double kRelative = 1e-3;
inline constexpr double kAbsolute = 1e-7;

enum class Verdict {
  Passed,            ///< every output is right
  PassedAsConstant,  ///< out of scope, but right where the importer computes it from constants
  RefusedByImporter,
  RefusedByEngine,
  OutOfScope,
  Failed,  ///< wrong values, another exception, or a refusal that names no operator or calls a valid model invalid
};

struct Judgement {
  Verdict verdict = Verdict::Failed;
  std::string op;      ///< the operator that is refused; empty otherwise
  std::string reason;  ///< of a refusal: the message; of OutOfScope: why; of Failed: what is wrong
};

/// Never throws. A device that is lost or absent is Failed too: ask is_available() first.
Judgement judge(const CaseFolder& folder, const Backend& backend, const EngineOptions& options);
Judgement judge(const OnnxCase& onnx_case, const std::string& name, const Backend& backend,
                const EngineOptions& options);

/// Why the backend cannot run here; empty when it can.
std::string why_unavailable(const Backend& backend, const EngineOptions& options);

}  // namespace mobicuda::conformance
