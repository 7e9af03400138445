#include "log_sink.h"

#include <optional>
#include <string_view>
#include <utility>

#include "errors.h"

namespace mobicuda::python {

namespace nb = nanobind;

struct LogSink::State {
  nb::object callable;  ///< null where there is none, and at the end
  std::optional<nb::python_error> raised;

  void tell(LogLevel level, std::string_view text) {
    const nb::gil_scoped_acquire gil;
    if (!callable.is_valid() || raised) return;
    try {
      callable(level == LogLevel::Warning ? "warning" : "info", to_text(printable(text)));
    } catch (nb::python_error& error) {
      raised.emplace(std::move(error));
    }
  }
};

LogSink::LogSink(nb::object callable) : state_(std::make_shared<State>()) {
  if (!callable.is_none()) state_->callable = std::move(callable);
}

LogSink::~LogSink() {
  state_->callable.reset();
  state_->raised.reset();
}

LogCallback LogSink::callback() const {
  if (!state_->callable.is_valid()) return {};
  return [state = state_](LogLevel level, std::string_view text) { state->tell(level, text); };
}

void LogSink::finish() {
  state_->callable.reset();
  if (!state_->raised) return;
  state_->raised->restore();
  state_->raised.reset();
  nb::raise_python_error();
}

}  // namespace mobicuda::python
