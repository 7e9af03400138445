#pragma once

#include <cstddef>

namespace mobicuda::pictures {

/// While it lives, stb_image gets no array of more than so many bytes in this thread, and fails where it asks for one.
/// It has no limit of its own: what it inflates grows as long as the file says so.
class StbMemoryLimit {
 public:
  explicit StbMemoryLimit(std::size_t bytes) noexcept;
  ~StbMemoryLimit();
  StbMemoryLimit(const StbMemoryLimit&) = delete;
  StbMemoryLimit& operator=(const StbMemoryLimit&) = delete;

  bool exceeded() const noexcept;  ///< whether an array was refused

 private:
  std::size_t before_;
};

}  // namespace mobicuda::pictures
