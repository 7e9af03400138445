#pragma once

#include <cstddef>
#include <functional>

namespace mobicuda::test {

/// While it lives, this program's reads and writes of files give at most `most_bytes`, every second one is interrupted
/// (EINTR), and before each read `before_read` is called, with the number of the read.
class ObstinateCalls {
 public:
  explicit ObstinateCalls(std::size_t most_bytes, std::function<void(int)> before_read = {});
  ~ObstinateCalls();
  ObstinateCalls(const ObstinateCalls&) = delete;
  ObstinateCalls& operator=(const ObstinateCalls&) = delete;

  int interrupted() const;  ///< calls so far
  int fell_short() const;   ///< that wanted more than they got
};

}  // namespace mobicuda::test
