#pragma once

#include <memory>
#include <string>
#include <utility>

#include <mobicuda/engine.h>

#include "process_bound.h"

namespace mobicuda::python {

/// An engine as Python holds it.
class EngineObject {
 public:
  EngineObject(std::shared_ptr<const Engine> engine, std::string input_name, std::string output_name)
      : engine_(std::move(engine)), input_name_(std::move(input_name)), output_name_(std::move(output_name)) {}

  std::shared_ptr<const Engine> engine() const { return engine_.get("engine"); }
  const std::string& input_name() const noexcept { return input_name_; }
  const std::string& output_name() const noexcept { return output_name_; }

 private:
  ProcessBound<const Engine> engine_;
  std::string input_name_;  ///< the model's
  std::string output_name_;
};

/// A session as Python holds it. Closing it while another thread runs it lets that run end.
class SessionObject {
 public:
  explicit SessionObject(const EngineObject& engine)
      : engine_(engine.engine()), session_(std::shared_ptr<Session>(engine_->create_session())) {}

  const Engine& engine() const noexcept { return *engine_; }
  std::shared_ptr<Session> session() const { return session_.get("session"); }
  /// Closes it, and gives what is left of it to the caller.
  std::shared_ptr<Session> take() noexcept { return session_.take(); }
  bool closed() const noexcept { return session_.empty(); }

 private:
  std::shared_ptr<const Engine> engine_;
  ProcessBound<Session> session_;
};

}  // namespace mobicuda::python
