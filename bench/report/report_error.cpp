#include "report/report_error.h"

#include <utility>

namespace mobicuda::bench::report {
namespace {

std::string text_of(ReportError::Kind kind, const std::string& where, const std::string& message,
                    const std::string& hint) {
  const std::string name = kind == ReportError::Kind::Io ? "io" : "invalid_argument";
  return name + ": " + where + ": " + message + (hint.empty() ? "" : "; " + hint);
}

}  // namespace

ReportError::ReportError(Kind kind, std::string where, std::string message, std::string hint)
    : std::runtime_error(text_of(kind, where, message, hint)),
      kind_(kind),
      where_(std::move(where)),
      message_(std::move(message)),
      hint_(std::move(hint)) {}

ReportError ReportError::inside(const std::string& file) const {
  return {kind_, file + ": " + where_, message_, hint_};
}

}  // namespace mobicuda::bench::report
