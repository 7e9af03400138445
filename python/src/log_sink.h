#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include <mobicuda/engine.h>

namespace mobicuda::python {

/// Hands the library's log to a Python callable(level, text) while an engine is made. What the callable raises does not
/// travel through the library: it is kept, the callable is not called again, and finish() raises it.
class LogSink {
 public:
  /// `callable` may be None. Needs the GIL, as finish() and the destructor do.
  explicit LogSink(nanobind::object callable);
  ~LogSink();
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;

  /// For EngineOptions and ImportOptions; empty where there is no callable. Takes the GIL. Silent after finish(), so
  /// that an engine, which keeps its options, keeps no Python object.
  LogCallback callback() const;

  /// Ends the log. Throws what the callable raised.
  void finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mobicuda::python
