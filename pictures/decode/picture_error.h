#pragma once

#include <stdexcept>

namespace mobicuda::pictures {

/// A picture that cannot be used; the message says why, without its name.
class PictureError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace mobicuda::pictures
