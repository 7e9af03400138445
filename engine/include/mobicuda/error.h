#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

#include <mobicuda/export.h>

namespace mobicuda {

/// What went wrong, for programs; the message is for people.
enum class ErrorCode {
  invalid_argument,    ///< the caller passed something that can never work
  invalid_model,       ///< the model file or graph contradicts itself or the ONNX specification
  unsupported,         ///< valid, but this build, implementation or precision does not do it
  io,                  ///< a file could not be opened or read
  out_of_memory,       ///< host or device memory was not available, or is more than a limit
  device_unavailable,  ///< no usable GPU, driver or library
  device_lost,         ///< the GPU context is gone; the process must be restarted
  internal,            ///< a bug in mobicuda
};

/// The code's name as it stands in messages, e.g. "invalid_model".
MOBICUDA_API std::string_view to_string(ErrorCode code) noexcept;

/// Text from outside, fit for a terminal: control characters of ASCII and Unicode (C0, DEL, C1) and bytes that are no
/// UTF-8 become \xNN.
MOBICUDA_API std::string printable(std::string_view text);

inline constexpr std::size_t kMaxErrorBytes = 8192;

/// The one exception type of the library. Its texts may name what a file says: they are made printable(), and parts of
/// more than kMaxErrorBytes cut.
///
/// `what()` reads "<code>: <where>: <message>; <hint>", with an absent part left out, e.g.
/// "invalid_model: m.onnx: node #17 'features.3' (Conv), attribute 'strides': must be > 0, got 0".
class MOBICUDA_API Error : public std::exception {
 public:
  Error(ErrorCode code, std::string where, std::string message, std::string hint = {});

  ErrorCode code() const noexcept { return code_; }
  const std::string& where() const noexcept { return where_; }      ///< file, node, attribute
  const std::string& message() const noexcept { return message_; }  ///< what, with the value
  const std::string& hint() const noexcept { return hint_; }        ///< what to do about it
  const char* what() const noexcept override { return what_.c_str(); }

  /// The same error with `outer` put in front of `where`, for callers that know more of the place.
  Error inside(std::string_view outer) const;

 private:
  ErrorCode code_;
  std::string where_;
  std::string message_;
  std::string hint_;
  std::string what_;
};

}  // namespace mobicuda
