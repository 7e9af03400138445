#pragma once

#include <stdexcept>
#include <string>

namespace mobicuda::bench::report {

/// A file that cannot be read, or is no document. what() reads "<kind>: <where>: <message>; <hint>", without an absent
/// hint, as the library's own errors do.
class ReportError : public std::runtime_error {
 public:
  enum class Kind {
    Io,       ///< the file cannot be read
    Invalid,  ///< it is none of those that are known
  };

  ReportError(Kind kind, std::string where, std::string message, std::string hint = {});

  Kind kind() const noexcept { return kind_; }

  /// The same error with the file's name in front of the place.
  ReportError inside(const std::string& file) const;

 private:
  Kind kind_;
  std::string where_;
  std::string message_;
  std::string hint_;
};

}  // namespace mobicuda::bench::report
