#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <mobicuda/error.h>
#include <mobicuda/pictures.h>

#include "graph/memory_errors.h"
#include "pictures/classify/batch_classifier.h"
#include "pictures/decode/decode.h"
#include "pictures/prepare/resize.h"
#include "pictures/stream/batch_loader.h"
#include "pictures/stream/thread_name.h"

namespace mobicuda::pictures {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const char* option, const std::string& range, std::int64_t got) {
  throw Error(ErrorCode::invalid_argument, std::string("ClassifierOptions::") + option,
              "must be " + range + ", got " + std::to_string(got));
}

// Workers that start and finish batches, and batches that each has under way.
struct Workers {
  std::size_t count;
  std::size_t in_flight;
};
constexpr Workers kGpuWorkers{2, 2};  // one thread cannot keep all JPEG units busy

// One for each core; sessions with threads of their own share the cores.
Workers cpu_workers(const EngineOptions& options) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return {options.threads == 0 ? 1 : std::max<std::size_t>(1, cores / static_cast<std::size_t>(options.threads)), 1};
}

void check(const ClassifierOptions& options) {
  constexpr int kMostBatch = 1024;
  constexpr int kMostGpuThreads = 8;
  check(options.decode);
  decoding_threads(options.threads);
  if (options.top < 1) refuse("top", "at least 1", options.top);
  if (options.batch < 1 || options.batch > kMostBatch) {
    refuse("batch", "from 1 to " + std::to_string(kMostBatch), options.batch);
  }
  if (options.gpu_threads < 0 || options.gpu_threads > kMostGpuThreads) {
    refuse("gpu_threads", "from 0 to " + std::to_string(kMostGpuThreads), options.gpu_threads);
  }
  if (options.max_pixel_bytes && *options.max_pixel_bytes < 0) {
    refuse("max_pixel_bytes", "at least 0", *options.max_pixel_bytes);
  }
}

Preprocessing preprocessing_for(const Engine& engine, const ClassifierOptions& options) {
  Preprocessing how = Preprocessing::for_input(engine.input(), options.normalization);
  if (options.resize_to) how.resize_to = *options.resize_to;
  check(how);
  return how;
}

Result result_of(std::size_t index, std::string name, Outcome& outcome) {
  return {
      index,          std::move(name), std::move(outcome.best), std::move(outcome.outputs), std::move(outcome.failure),
      outcome.decoder};
}

}  // namespace

std::string_view to_string(Decoder decoder) noexcept {
  switch (decoder) {
    case Decoder::None:
      return "none";
    case Decoder::Cpu:
      return "cpu";
    case Decoder::NvjpegUnits:
      return "nvjpeg units";
    case Decoder::NvjpegSms:
      return "nvjpeg sms";
  }
  return "?";
}

class Classifier::Impl {
 public:
  Impl(std::shared_ptr<const Engine> engine, ClassifierOptions options)
      : engine_(std::move(engine)), options_(std::move(options)) {
    if (!engine_) throw Error(ErrorCode::invalid_argument, "Classifier", "the engine is null");
    check(options_);
    how_ = preprocessing_for(*engine_, options_);
    if (on_gpu()) {
      nvjpeg_ = find_nvjpeg(*engine_, options_);
    } else if (options_.decode_on != DecodeOn::Auto && options_.decode_on != DecodeOn::Cpu) {
      throw Error(ErrorCode::device_unavailable, "ClassifierOptions::decode_on",
                  "asks for the GPU, but the engine is of the CPU",
                  "compile the network with a GPU backend, or decode on the CPU");
    }
    settings_.batch = static_cast<std::size_t>(options_.batch);
    settings_.threads = decoding_threads(options_.threads);
    const Workers workers = on_gpu() ? kGpuWorkers : cpu_workers(engine_->options());
    settings_.workers =
        on_gpu() && options_.gpu_threads > 0 ? static_cast<std::size_t>(options_.gpu_threads) : workers.count;
    settings_.in_flight = workers.in_flight;
    // What is in flight, what is ready, what is being loaded; more of small batches, which must not leave threads idle.
    settings_.slots = std::max(settings_.workers * settings_.in_flight + 2,
                               (2 * settings_.threads + settings_.batch - 1) / settings_.batch + 1);
    many_ = make(settings_);
  }

  const BatchClassifier::Settings& settings() const noexcept { return settings_; }
  const ClassifierOptions& options() const noexcept { return options_; }
  const Preprocessing& preprocessing() const noexcept { return how_; }
  BatchClassifier& many() noexcept { return *many_; }

  ClassifierMemory memory() {
    ClassifierMemory memory = many_->memory();
    const std::scoped_lock lock(one_mutex_);
    if (one_) {
      const ClassifierMemory one = one_->memory();
      memory.device_bytes += one.device_bytes;
      memory.host_bytes += one.host_bytes;
      memory.encoded_bytes += one.encoded_bytes;
      memory.session_bytes += one.session_bytes;
    }
    return memory;
  }

  void begin_run() {
    if (running_.exchange(true)) {
      throw Error(ErrorCode::invalid_argument, "Classifier::classify()", "another run of this classifier is not over",
                  "destroy its Run first, or make a classifier for each");
    }
    try {
      many_->reset();
    } catch (...) {
      end_run();
      throw;
    }
  }
  void end_run() noexcept { running_.store(false); }

  Result classify_one(std::span<const std::uint8_t> encoded, std::string name) {
    const std::scoped_lock lock(one_mutex_);
    if (!one_) one_ = make({1, 1, 1, 1, 1, false});
    BatchLoader::Batch& batch = one_batch_;
    batch.items.resize(1);
    batch.size = 1;
    batch.items[0].entry = {};
    batch.items[0].entry.memory = encoded;
    StageTimes times;
    try {
      one_->load(batch, 0, 0, times);
      one_->start(batch, 0, times);
      one_->finish(batch, 0, times);
    } catch (...) {
      one_->abandon(0);
      one_.reset();
      throw;
    }
    return result_of(0, std::move(name), one_->outcome(0, 0));
  }

 private:
  bool on_gpu() const noexcept { return engine_->backend() != "cpu"; }

  std::unique_ptr<BatchClassifier> make(const BatchClassifier::Settings& settings) const {
    return on_gpu() ? make_gpu_classifier(engine_, options_, how_, nvjpeg_, settings)
                    : make_cpu_classifier(engine_, options_, how_, settings);
  }

  std::shared_ptr<const Engine> engine_;
  const ClassifierOptions options_;
  Preprocessing how_;
  std::shared_ptr<const Nvjpeg> nvjpeg_;  // null where the CPU decodes
  BatchClassifier::Settings settings_;
  std::unique_ptr<BatchClassifier> many_;
  std::atomic<bool> running_{false};

  std::mutex one_mutex_;
  std::unique_ptr<BatchClassifier> one_;
  BatchLoader::Batch one_batch_;
};

class Run::Impl {
 public:
  Impl(Classifier::Impl& classifier, PictureSource source)
      : classifier_(classifier),
        ready_(classifier.settings().slots),
        loader_(std::move(source),
                {classifier.settings().batch, classifier.settings().slots, classifier.settings().threads},
                [this](BatchLoader::Batch& batch, std::size_t place, std::size_t thread) {
                  classifier_.many().load(batch, place, thread, times_);
                }) {
    working_ = classifier.settings().workers;
    try {
      for (std::size_t i = 0; i < classifier.settings().workers; ++i) workers_.emplace_back([this, i] { work(i); });
      on_stop_.emplace(classifier.options().stop, [this] { stop(); });
    } catch (...) {
      stop();
      workers_.clear();
      throw;
    }
  }

  ~Impl() {
    on_stop_.reset();
    stop();
    workers_.clear();
    classifier_.end_run();
  }

  std::optional<Result> next() {
    if (over_) return std::nullopt;
    try {
      if (batch_ != nullptr && place_ == batch_->size) give_back();
      if (stopped_ || (batch_ == nullptr && !take_batch())) return std::nullopt;
      Outcome& outcome = classifier_.many().outcome(batch_->slot, place_);
      count(outcome);
      const std::size_t index = batch_->first + place_;
      return result_of(index, std::move(batch_->items[place_++].entry.name), outcome);
    } catch (...) {
      over_ = true;
      stop();
      throw;
    }
  }

  void stop() noexcept {
    stopped_ = true;
    loader_.stop();
    { const std::scoped_lock lock(mutex_); }  // whoever is about to wait sees it
    finished_.notify_all();
  }

  Report report() const {
    Report report = report_;
    report.stopped = stopped_ && !ended_;
    report.read_ms = times_.read.ms();
    report.host_decode_ms = times_.host_decode.ms();
    report.units_ms = times_.units.ms();
    report.resize_ms = times_.resize.ms();
    report.network_ms = times_.network.ms();
    report.wall_ms = std::chrono::duration<double, std::milli>(last_ - start_).count();
    return report;
  }

 private:
  // False at the end.
  bool take_batch() {
    std::unique_lock lock(mutex_);
    BatchLoader::Batch*& slot = ready_[sequence_ % ready_.size()];
    finished_.wait(lock, [&] { return slot != nullptr || failure_ || stopped_ || working_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
    if (stopped_) return false;
    if (slot == nullptr) {
      over_ = ended_ = true;
      return false;
    }
    batch_ = std::exchange(slot, nullptr);
    place_ = 0;
    return true;
  }

  void give_back() {
    ++sequence_;
    loader_.release(*std::exchange(batch_, nullptr));
    if (classifier_.options().progress) classifier_.options().progress({report_.pictures, report_.failed});
  }

  void count(const Outcome& outcome) {
    last_ = Clock::now();
    ++report_.pictures;
    report_.failed += outcome.failure.empty() ? 0 : 1;
    report_.by_cpu += outcome.decoder == Decoder::Cpu ? 1 : 0;
    report_.by_units += outcome.decoder == Decoder::NvjpegUnits ? 1 : 0;
    report_.by_sms += outcome.decoder == Decoder::NvjpegSms ? 1 : 0;
    report_.decoded_again += outcome.decoded_again ? 1 : 0;
  }

  void work(std::size_t worker) {
    name_thread("pictures-run");
    std::deque<BatchLoader::Batch*> in_flight;
    try {
      classifier_.many().enter(worker);
      for (;;) {
        BatchLoader::Batch* batch = nullptr;
        if (in_flight.empty()) {
          batch = loader_.take();
          if (batch == nullptr) break;
        } else if (in_flight.size() < classifier_.settings().in_flight) {
          batch = loader_.try_take();
        }
        if (batch != nullptr) {
          in_flight.push_back(batch);
          classifier_.many().start(*batch, worker, times_);
          continue;
        }
        batch = in_flight.front();
        classifier_.many().finish(*batch, worker, times_);
        in_flight.pop_front();
        const std::scoped_lock lock(mutex_);
        ready_[batch->slot] = batch;
        finished_.notify_all();
      }
    } catch (...) {
      for (const BatchLoader::Batch* const batch : in_flight) classifier_.many().abandon(batch->slot);
      loader_.stop();
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    --working_;
    finished_.notify_all();
  }

  Classifier::Impl& classifier_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  StageTimes times_;

  std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<BatchLoader::Batch*> ready_;  // by slot: batches with outcomes
  std::exception_ptr failure_;
  std::size_t working_ = 0;
  std::atomic<bool> stopped_{false};

  // Of the thread that takes results.
  BatchLoader::Batch* batch_ = nullptr;
  std::size_t sequence_ = 0;
  std::size_t place_ = 0;
  bool over_ = false;
  bool ended_ = false;
  Report report_;

  BatchLoader loader_;
  std::vector<std::jthread> workers_;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

Classifier::Classifier(std::shared_ptr<const Engine> engine, ClassifierOptions options) {
  with_memory_errors("a classifier", [&] { impl_ = std::make_unique<Impl>(std::move(engine), std::move(options)); });
}
Classifier::Classifier(Classifier&&) noexcept = default;
Classifier& Classifier::operator=(Classifier&&) noexcept = default;
Classifier::~Classifier() = default;

Run Classifier::classify(PictureSource source) {
  return with_memory_errors("classifying pictures", [&] {
    impl_->begin_run();
    try {
      return Run(std::make_unique<Run::Impl>(*impl_, std::move(source)));
    } catch (...) {
      impl_->end_run();
      throw;
    }
  });
}

Result Classifier::classify_one(std::span<const std::uint8_t> encoded, std::string name) {
  return with_memory_errors("classifying a picture", [&] { return impl_->classify_one(encoded, std::move(name)); });
}

const ClassifierOptions& Classifier::options() const noexcept { return impl_->options(); }
const Preprocessing& Classifier::preprocessing() const noexcept { return impl_->preprocessing(); }
Decoder Classifier::decoder() const noexcept { return impl_->many().decoder(); }
ClassifierMemory Classifier::memory() const { return impl_->memory(); }

Run::Run(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Run::Run(Run&&) noexcept = default;
Run::~Run() = default;

std::optional<Result> Run::next() {
  return with_memory_errors("classifying pictures", [&] { return impl_->next(); });
}
void Run::stop() noexcept { impl_->stop(); }
Report Run::report() const { return impl_->report(); }

}  // namespace mobicuda::pictures
