#pragma once

#include <exception>
#include <string>
#include <string_view>

#include <mobicuda/engine.h>
#include <mobicuda/error.h>

#include "triton/triton_api.h"

namespace mobicuda::triton {

/// An error that the server's own functions gave.
class ServerError : public std::exception {
 public:
  /// Takes the error's text and deletes it.
  explicit ServerError(TRITONSERVER_Error* error)
      : code_(TRITONSERVER_ErrorCode(error)), text_(TRITONSERVER_ErrorMessage(error)) {
    TRITONSERVER_ErrorDelete(error);
  }
  TRITONSERVER_Error_Code code() const noexcept { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  TRITONSERVER_Error_Code code_;
  std::string text_;
};

/// Throws what a function of the server gave, unless that is nothing.
inline void check(TRITONSERVER_Error* error) {
  if (error != nullptr) throw ServerError(error);
}

/// The code that clients see: INVALID_ARG (HTTP 400), UNSUPPORTED (501), UNAVAILABLE (503), INTERNAL (500).
TRITONSERVER_Error_Code server_code(ErrorCode code) noexcept;

/// The exception that is being handled, for the server; the caller owns it. To be called in a catch block.
TRITONSERVER_Error* current_error() noexcept;

/// Logs an error and deletes it; nothing for null.
void log_and_delete(TRITONSERVER_Error* error, std::string_view what) noexcept;

void log(TRITONSERVER_LogLevel level, const std::string& text) noexcept;

/// What the library has to say, with `name` in front.
LogCallback log_callback(std::string name);

}  // namespace mobicuda::triton
