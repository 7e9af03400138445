#include "triton/server_errors.h"

#include <new>
#include <utility>

namespace mobicuda::triton {

TRITONSERVER_Error_Code server_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::invalid_model:
      return TRITONSERVER_ERROR_INVALID_ARG;
    case ErrorCode::unsupported:
      return TRITONSERVER_ERROR_UNSUPPORTED;
    case ErrorCode::io:
    case ErrorCode::out_of_memory:
    case ErrorCode::device_unavailable:
    case ErrorCode::device_lost:
      return TRITONSERVER_ERROR_UNAVAILABLE;
    case ErrorCode::internal:
      break;
  }
  return TRITONSERVER_ERROR_INTERNAL;
}

TRITONSERVER_Error* current_error() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return TRITONSERVER_ErrorNew(server_code(error.code()), error.what());
  } catch (const ServerError& error) {
    return TRITONSERVER_ErrorNew(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "out_of_memory: mobicuda: no host memory");
  } catch (const std::exception& error) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, error.what());
  } catch (...) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "internal: mobicuda: an exception of no known type");
  }
}

void log_and_delete(TRITONSERVER_Error* error, std::string_view what) noexcept {
  if (error == nullptr) return;
  try {
    log(TRITONSERVER_LOG_ERROR, std::string(what) + ": " + TRITONSERVER_ErrorMessage(error));
  } catch (...) {  // no memory for the text
    log(TRITONSERVER_LOG_ERROR, {});
  }
  TRITONSERVER_ErrorDelete(error);
}

void log(TRITONSERVER_LogLevel level, const std::string& text) noexcept {
  TRITONSERVER_Error* const failed = TRITONSERVER_LogMessage(level, "mobicuda", 0, text.c_str());
  if (failed != nullptr) TRITONSERVER_ErrorDelete(failed);
}

LogCallback log_callback(std::string name) {
  return [name = std::move(name)](LogLevel level, std::string_view text) {
    log(level == LogLevel::Warning ? TRITONSERVER_LOG_WARN : TRITONSERVER_LOG_INFO, name + ": " + std::string(text));
  };
}

}  // namespace mobicuda::triton
