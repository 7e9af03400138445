#include <mobicuda/error.h>

#include <utility>

namespace mobicuda {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::invalid_model:
      return "invalid_model";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::io:
      return "io";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::device_unavailable:
      return "device_unavailable";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

Error::Error(ErrorCode code, std::string where, std::string message, std::string hint)
    : code_(code), where_(std::move(where)), message_(std::move(message)), hint_(std::move(hint)) {
  what_ = std::string(to_string(code_)) + ": ";
  if (!where_.empty()) what_ += where_ + ": ";
  what_ += message_;
  if (!hint_.empty()) what_ += "; " + hint_;
}

Error Error::inside(std::string_view outer) const {
  std::string where(outer);
  if (!where_.empty()) where += ": " + where_;
  return {code_, std::move(where), message_, hint_};
}

}  // namespace mobicuda
