#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace mobicuda::kernels {

/// Specialised variants that were found for a shape, by all that they depend on. Ranking configurations takes
/// milliseconds, and one plan asks several times for the same layer. Safe from several threads.
template <class Key, class Variant>
class MadeVariants {
 public:
  /// What make() gives for the key, or gave before.
  template <class Make>
  std::vector<Variant> find(const Key& key, const Make& make) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto known = made_.find(key); known != made_.end()) return known->second;
    }
    std::vector<Variant> made = make();
    const std::scoped_lock lock(mutex_);
    if (made_.size() >= kMost) made_.clear();
    made_.emplace(key, made);
    return made;
  }

 private:
  static constexpr std::size_t kMost = 4096;

  std::mutex mutex_;
  std::map<Key, std::vector<Variant>> made_;
};

}  // namespace mobicuda::kernels
