#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "triton/model.h"
#include "triton/request.h"
#include "triton/request_queue.h"
#include "triton/triton_api.h"

namespace mobicuda::triton {

/// Runs the images of several requests as one batch.
class Runner {
 public:
  /// What became of a batch.
  struct Results {
    std::span<const float> logits;       ///< of all images, in their order; until the next run
    std::vector<std::string> failures;   ///< why a request has none, by request; none at all where none failed
    std::uint64_t compute_start_ns = 0;  ///< when the inputs were in place
  };

  virtual ~Runner() = default;

  /// `requests` have max_batch images together at most. Throws what sessions and classifiers do.
  virtual Results run(std::span<Request* const> requests) = 0;
};

/// A runner for what the model's requests carry, with a session of its own. The model must outlive it.
std::unique_ptr<Runner> make_runner(const Model& model, const Processor& processor, const EngineInUse& engine);

/// Nanoseconds of the steady clock, which the server's own times are of.
std::uint64_t now_ns() noexcept;

/// An instance of a model: a thread that runs what waits, one batch after the other.
class Instance {
 public:
  /// Called when the GPU was lost, and its requests are answered: every later call would fail.
  using EndProcess = std::function<void()>;

  /// `queue` is that of all instances of the model; both must outlive it.
  Instance(TRITONBACKEND_ModelInstance* instance, const Model& model, RequestQueue& queue,
           std::shared_ptr<const EngineInUse> engine, std::unique_ptr<Runner> runner, EndProcess end_process);
  ~Instance();  ///< once what waits was run
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Takes requests, and answers those at once that are wrong or have no room in the queue; the others are answered,
  /// and given back to the server, by one of the instances. Throws std::bad_alloc before it takes any.
  void execute(std::span<TRITONBACKEND_Request* const> handles);

 private:
  struct Times {  // in nanoseconds; 0: it has not come so far
    std::uint64_t start_ns;
    std::uint64_t compute_start_ns;
    std::uint64_t compute_end_ns;
  };

  void work(const std::stop_token& stop);
  void run(std::vector<Request>& requests) noexcept;
  /// Those that have no answer yet, by the exception that is being handled.
  void fail_all(std::vector<Request>& requests, const Times& times) const noexcept;
  void fail(Request& request, TRITONSERVER_Error* error, const Times& times) const noexcept;
  void report(const Request& request, bool success, const Times& times) const noexcept;

  TRITONBACKEND_ModelInstance* instance_;
  const Model& model_;
  RequestQueue& queue_;
  std::shared_ptr<const EngineInUse> engine_;
  std::unique_ptr<Runner> runner_;
  EndProcess end_process_;
  std::jthread thread_;  // last: it uses all of the above
};

/// The exit status of a process whose GPU was lost: EX_TEMPFAIL of sysexits.h.
inline constexpr int kDeviceLostStatus = 75;

/// Ends the process at once, with kDeviceLostStatus.
[[noreturn]] void end_process(const std::string& why);

}  // namespace mobicuda::triton
