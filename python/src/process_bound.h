#pragma once

#include <memory>
#include <string>
#include <utility>

#include <mobicuda/error.h>

namespace mobicuda::python {

/// How often this process is a fork of the one that loaded the module.
unsigned forks() noexcept;

/// Shared ownership of what has threads or a GPU's context, neither of which a forked child has: there, using it throws
/// instead of waiting for ever, and nothing is destroyed. Calls need the GIL, or are the only one.
template <class T>
class ProcessBound {
 public:
  explicit ProcessBound(std::shared_ptr<T> object)
      : object_(new std::shared_ptr<T>(std::move(object))), made_in_(forks()) {}
  ~ProcessBound() { take(); }
  ProcessBound(ProcessBound&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), made_in_(other.made_in_) {}
  ProcessBound(const ProcessBound&) = delete;
  ProcessBound& operator=(const ProcessBound&) = delete;
  ProcessBound& operator=(ProcessBound&&) = delete;

  bool empty() const noexcept { return object_ == nullptr; }

  /// The object, which lives on while the caller has it. Throws Error(invalid_argument) after take() and in a fork.
  std::shared_ptr<T> get(const char* what) const {
    if (object_ == nullptr) throw Error(ErrorCode::invalid_argument, what, "is closed", "create another one");
    if (made_in_ != forks()) {
      throw Error(ErrorCode::invalid_argument, what, "was made before this process was forked",
                  "load it in the child, or start processes by 'spawn' (multiprocessing.get_context)");
    }
    return *object_;
  }

  /// Gives the object away, for the caller to let go of; in a fork nothing.
  std::shared_ptr<T> take() noexcept {
    std::shared_ptr<T>* const object = std::exchange(object_, nullptr);
    if (object == nullptr || made_in_ != forks()) return {};
    std::shared_ptr<T> taken = std::move(*object);
    delete object;
    return taken;
  }

 private:
  std::shared_ptr<T>* object_;
  unsigned made_in_;
};

}  // namespace mobicuda::python
