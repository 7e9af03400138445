#include "triton/instance.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include <mobicuda/error.h>
#include <mobicuda/pictures.h>

#include "triton/device_memory.h"
#include "triton/server_errors.h"

namespace mobicuda::triton {
namespace {

// Floats and pixels: gathered into the session's staged memory, read from there, and nowhere else in between. Where
// some of them lie in GPU memory, and the engine is a GPU's, they are gathered there.
class TensorRunner final : public Runner {
 public:
  TensorRunner(const Model& model, const Processor& processor, const EngineInUse& engine)
      : floats_(model.input_kind() == InputKind::Floats),
        gpu_(processor.gpu.has_value()),
        engine_(engine.engine()),
        session_(engine_->create_session()) {
    staged(1);
    session_->staged_output(1);
    if (!model.settings().warm_up) return;
    std::vector<std::int64_t> batches(static_cast<std::size_t>(std::min(model.max_batch(), kMostWarmBatches)));
    std::iota(batches.begin(), batches.end(), 1);
    session_->warm_up(batches);
  }

  Results run(std::span<Request* const> requests) override {
    std::int64_t images = 0;
    for (const Request* request : requests) images += request->images();
    const bool in_gpu_memory = std::ranges::any_of(requests, [](const Request* r) { return r->device().has_value(); });
    return gpu_ && in_gpu_memory ? run_gathered(requests, images) : run_staged(requests, images);
  }

 private:
  Results run_staged(std::span<Request* const> requests, std::int64_t images) {
    std::byte* to = staged(images).data();
    for (const Request* request : requests) {
      for (const auto piece : request->pieces()) {
        if (request->device()) {
          copy_any(to, piece.data(), piece.size());
        } else {
          std::memcpy(to, piece.data(), piece.size());
        }
        to += piece.size();
      }
    }
    Results results;
    results.compute_start_ns = now_ns();
    session_->run_staged(images);
    results.logits = session_->staged_output(images);
    return results;
  }

  Results run_gathered(std::span<Request* const> requests, std::int64_t images) {
    if (!device_runs_) device_runs_ = make_device_runs(*session_, *engine_);
    pieces_.clear();
    for (const Request* request : requests) {
      for (const auto piece : request->pieces()) pieces_.push_back({piece, request->device()});
    }
    Results results;
    results.compute_start_ns = now_ns();
    results.logits = device_runs_->run(pieces_, images);
    return results;
  }

  std::span<std::byte> staged(std::int64_t images) {
    return floats_ ? std::as_writable_bytes(session_->staged_input(images))
                   : std::as_writable_bytes(session_->staged_pictures(images));
  }

  bool floats_;
  bool gpu_;
  std::shared_ptr<const Engine> engine_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<DeviceRuns> device_runs_;  // once there was a request for it
  std::vector<Piece> pieces_;                // of the last run there
};

// Encoded pictures: read where the server has them.
class EncodedRunner final : public Runner {
 public:
  EncodedRunner(const Model& model, const Processor& processor, const EngineInUse& engine)
      : model_(model),
        classes_(static_cast<std::size_t>(model.file().classes())),
        classifier_(engine.engine(), options_of(model, processor)) {}

  Results run(std::span<Request* const> requests) override {
    Results results;
    results.compute_start_ns = now_ns();
    std::vector<pictures::EncodedPicture> encoded;
    std::vector<std::pair<std::size_t, std::size_t>> places;  // of each picture: request, and number in it
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (const auto picture : requests[i]->encoded()) {
        places.emplace_back(i, places.empty() || places.back().first != i ? 0 : places.back().second + 1);
        encoded.push_back({"picture " + std::to_string(places.back().second), picture});
      }
    }
    logits_.assign(encoded.size() * classes_, 0.0F);
    const auto take = [&](const pictures::Result& result, std::size_t index) {
      model_.count_decoded(result.decoder);
      if (result.ok()) {
        std::ranges::copy(result.outputs, logits_.begin() + static_cast<std::ptrdiff_t>(index * classes_));
        return;
      }
      results.failures.resize(requests.size());
      std::string& failure = results.failures[places[index].first];
      if (failure.empty()) failure = printable(result.name) + ": " + result.failure;
    };
    if (encoded.size() == 1) {
      take(classifier_.classify_one(encoded.front().bytes, encoded.front().name), 0);
    } else {
      for (const pictures::Result& result : classifier_.classify(pictures::PictureSource::memory(std::move(encoded)))) {
        take(result, result.index);
      }
    }
    results.logits = logits_;
    return results;
  }

 private:
  static pictures::ClassifierOptions options_of(const Model& model, const Processor& processor) {
    constexpr std::int64_t kMostBatch = 1024;  // of a classifier
    pictures::ClassifierOptions options;
    options.normalization = model.settings().preprocess.value_or(pictures::Normalization::Torch);
    options.decode_on = processor.gpu ? model.settings().decode : pictures::DecodeOn::Cpu;
    options.top = 1;
    options.outputs = true;
    options.batch = static_cast<int>(std::min(model.max_batch(), kMostBatch));
    options.threads = model.settings().decode_threads;
    options.log = log_callback(model.where());
    return options;
  }

  const Model& model_;
  std::size_t classes_;
  pictures::Classifier classifier_;
  std::vector<float> logits_;
};

// The exception that is being handled.
void log_current() noexcept {
  TRITONSERVER_Error* const error = current_error();
  log(TRITONSERVER_LOG_ERROR, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
}

}  // namespace

std::unique_ptr<Runner> make_runner(const Model& model, const Processor& processor, const EngineInUse& engine) {
  if (model.input_kind() != InputKind::Encoded) return std::make_unique<TensorRunner>(model, processor, engine);
  const pictures::DecodeOn decode = model.settings().decode;
  if (!processor.gpu && decode != pictures::DecodeOn::Auto && decode != pictures::DecodeOn::Cpu) {
    throw Error(ErrorCode::invalid_argument, model.where() + ": parameter 'decode'",
                "wants a GPU, and the instance is of KIND_CPU");
  }
  return std::make_unique<EncodedRunner>(model, processor, engine);
}

std::uint64_t now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

Instance::Instance(TRITONBACKEND_ModelInstance* instance, const Model& model, RequestQueue& queue,
                   std::shared_ptr<const EngineInUse> engine, std::unique_ptr<Runner> runner, EndProcess end_process)
    : instance_(instance),
      model_(model),
      queue_(queue),
      engine_(std::move(engine)),
      runner_(std::move(runner)),
      end_process_(std::move(end_process)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {
  engine_->count_session(1);
}

Instance::~Instance() {
  thread_.request_stop();
  thread_.join();
  engine_->count_session(-1);
}

void Instance::execute(std::span<TRITONBACKEND_Request* const> handles) {
  const Times times{now_ns(), 0, 0};
  std::vector<Request> requests;
  requests.reserve(handles.size());
  for (TRITONBACKEND_Request* handle : handles) {
    Request request(handle);
    try {
      request.read(model_);
      requests.push_back(std::move(request));
    } catch (...) {
      TRITONSERVER_Error* const error = current_error();
      fail(request, error, times);
      TRITONSERVER_ErrorDelete(error);
    }
  }
  try {
    if (queue_.push(requests) == requests.size()) return;
    throw Error(ErrorCode::out_of_memory, model_.where(),
                "has " + std::to_string(queue_.most_waiting()) + " requests waiting already (max_queue_size)",
                "ask again later, or another server");
  } catch (...) {
    fail_all(requests, times);
  }
}

void Instance::work(const std::stop_token& stop) {
  while (true) {
    try {
      std::vector<Request> requests = queue_.pop(stop);
      if (requests.empty()) return;
      run(requests);
    } catch (const std::bad_alloc&) {  // what waits is still there, and memory may come back
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void Instance::run(std::vector<Request>& requests) noexcept {
  Times times{now_ns(), 0, 0};
  std::vector<Request*> batch;
  bool lost = false;
  try {
    batch.reserve(requests.size());
    for (Request& request : requests) {
      if (request.cancelled()) {
        TRITONSERVER_Error* const error = cancelled_error();
        fail(request, error, times);
        TRITONSERVER_ErrorDelete(error);
      } else {
        batch.push_back(&request);
      }
    }
    if (batch.empty()) return;
    const Runner::Results results = runner_->run(batch);
    times.compute_start_ns = results.compute_start_ns;
    times.compute_end_ns = now_ns();
    std::int64_t images = 0;
    const auto classes = static_cast<std::size_t>(model_.file().classes());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Request& request = *batch[i];
      const auto logits = results.logits.subspan(static_cast<std::size_t>(images) * classes,
                                                 static_cast<std::size_t>(request.images()) * classes);
      images += request.images();
      if (results.failures.empty() || results.failures[i].empty()) {
        const bool answered = request.answer(model_, logits);
        if (!answered) model_.count_failed_request();
        report(request, answered, times);
      } else {
        const std::string& failure = results.failures[i];
        TRITONSERVER_Error* const error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, failure.c_str());
        fail(request, error, times);
        TRITONSERVER_ErrorDelete(error);
      }
    }
    log_and_delete(
        TRITONBACKEND_ModelInstanceReportBatchStatistics(instance_, static_cast<std::uint64_t>(images), times.start_ns,
                                                         times.compute_start_ns, times.compute_end_ns, now_ns()),
        "statistics of a batch");
    return;
  } catch (const Error& error) {
    lost = error.code() == ErrorCode::device_lost;
    log_current();
    fail_all(requests, times);
  } catch (...) {
    log_current();
    fail_all(requests, times);
  }
  if (lost) end_process_();
}

void Instance::fail_all(std::vector<Request>& requests, const Times& times) const noexcept {
  TRITONSERVER_Error* const error = current_error();
  for (Request& request : requests) {
    if (request.handle() != nullptr && !request.answered()) fail(request, error, times);
  }
  TRITONSERVER_ErrorDelete(error);
}

void Instance::fail(Request& request, TRITONSERVER_Error* error, const Times& times) const noexcept {
  model_.count_failed_request();
  request.fail(error);
  report(request, false, times);
}

void Instance::report(const Request& request, bool success, const Times& times) const noexcept {
  const std::uint64_t end_ns = now_ns();
  // A request that did not get so far has all its time before the computation.
  const std::uint64_t compute_start_ns = times.compute_start_ns != 0 ? times.compute_start_ns : end_ns;
  const std::uint64_t compute_end_ns = times.compute_end_ns != 0 ? times.compute_end_ns : end_ns;
  log_and_delete(TRITONBACKEND_ModelInstanceReportStatistics(instance_, request.handle(), success, times.start_ns,
                                                             compute_start_ns, compute_end_ns, end_ns),
                 "statistics of a request");
}

void end_process(const std::string& why) {
  log(TRITONSERVER_LOG_ERROR, why + ": the GPU is lost, so the process ends, with status " +
                                  std::to_string(kDeviceLostStatus) + ", for its supervisor to start a new one");
  std::_Exit(kDeviceLostStatus);  // destructors would call a driver that no longer answers
}

}  // namespace mobicuda::triton
