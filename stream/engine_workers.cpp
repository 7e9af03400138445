#include "stream/engine_workers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include <mobicuda/mobicuda.h>
#include <mobicuda/pictures.h>

#include "bench_engine/measure/nvml.h"

#ifdef MOBICUDA_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace mobicuda::stream {
namespace {

// Two: while one waits for its unit's last results, the other's next ones are decoded.
constexpr std::size_t kWorkersOfGpu = 2;

// Reading threads of each worker: all cores, shared among the workers of all GPUs. Of the CPU's one worker all cores.
int reading_threads(std::size_t workers) {
  constexpr std::size_t kLeast = 2;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<int>(std::max(kLeast, cores / workers));
}

// Each core of the CPU runs pictures of its own, which needs no barriers between threads; a few at a time, as each core
// has memory for its own.
constexpr int kThreadsOfCpuEngine = 1;
constexpr std::int64_t kMostOfCpuEngine = 8;

pictures::Normalization normalization_of(const ModelConfig& model) {
  return model.zero_centred ? pictures::Normalization::Tf : pictures::Normalization::Torch;
}

/// Loads models for one processor.
class Loader {
 public:
  Loader(const Config& config, std::optional<int> gpu, LogCallback log)
      : config_(config), gpu_(gpu), log_(std::move(log)), backend_(gpu ? make_custom_backend() : make_cpu_backend()) {}

  std::shared_ptr<const Engine> load(const ModelConfig& model) const {
    EngineOptions options;
    options.device = gpu_.value_or(0);
    options.log = log_;
    if (!gpu_) options.threads = kThreadsOfCpuEngine;
    if (model.file.extension() == ".plan") return restore(model, options);
    options.precision = config_.precision.value_or(gpu_ ? Precision::Fp16 : Precision::Fp32);
    options.max_batch = gpu_ ? config_.batchsize : std::min<std::int64_t>(config_.batchsize, kMostOfCpuEngine);
    options.picture_input = pictures::picture_input(normalization_of(model));
    onnx_import::ImportOptions import;
    import.log = log_;
    const Graph graph = onnx_import::load(model.file, import);
    try {
      return backend_->compile(graph, options);
    } catch (const Error& error) {
      throw error.inside(model.file.string());
    }
  }

 private:
  std::shared_ptr<const Engine> restore(const ModelConfig& model, EngineOptions options) const {
    const SavedEngine saved = plan_file::read(model.file);
    options.precision = saved.options.precision;
    options.max_batch = saved.options.max_batch;
    options.picture_input = saved.options.picture_input;
    if (config_.precision && *config_.precision != options.precision) {
      throw Error(ErrorCode::invalid_argument, model.file.string(),
                  "was compiled for " + std::string(to_string(options.precision)) + ", 'precision' asks for " +
                      std::string(to_string(*config_.precision)));
    }
    try {
      return backend_->restore(saved, options);
    } catch (const Error& error) {
      throw error.inside(model.file.string());
    }
  }

  const Config& config_;
  std::optional<int> gpu_;
  LogCallback log_;
  std::unique_ptr<Backend> backend_;
};

pictures::DecodeOn decode_on(const Config& config, std::optional<int> gpu) {
  if (!gpu) {
    if (config.decode != Decode::Auto && config.decode != Decode::Cpu) {
      throw Error(ErrorCode::invalid_argument, "'decode'", "wants a GPU, and 'gpu_num' asks for no GPU");
    }
    return pictures::DecodeOn::Cpu;
  }
  switch (config.decode) {
    case Decode::Gpu:
      return pictures::DecodeOn::Gpu;
    case Decode::GpuUnits:
      return pictures::DecodeOn::GpuUnits;
    case Decode::GpuSms:
      return pictures::DecodeOn::GpuSms;
    case Decode::Cpu:
      return pictures::DecodeOn::Cpu;
    case Decode::Auto:
      break;
  }
  return pictures::DecodeOn::Auto;
}

/// A worker with the library's own engines.
class EngineWorker : public Worker {
 public:
  EngineWorker(const Config& config, const PictureFiles& pictures, std::optional<int> gpu, int threads,
               std::shared_ptr<const Loader> loader, LogCallback log)
      : config_(config),
        pictures_(pictures),
        gpu_(gpu),
        threads_(threads),
        loader_(std::move(loader)),
        log_(std::move(log)) {}

  /// Keeps a classifier for the model.
  void preload(std::size_t model, const std::shared_ptr<const Engine>& engine) {
    classifiers_.emplace(model, classifier(model, engine));
  }

  void classify(const Unit& unit, const Take& take, const std::stop_token& stop) override {
    const auto kept = classifiers_.find(unit.model);
    if (kept != classifiers_.end()) return classify(kept->second, unit, take, stop);
    pictures::Classifier anew = classifier(unit.model, loader_->load(config_.models[unit.model]));
    classify(anew, unit, take, stop);
  }

 private:
  pictures::Classifier classifier(std::size_t model, const std::shared_ptr<const Engine>& engine) const {
    const ModelConfig& of = config_.models[model];
    pictures::ClassifierOptions options;
    options.normalization = normalization_of(of);
    options.decode_on = decode_on(config_, gpu_);
    options.top = config_.top;
    options.threads = threads_;
    options.batch = static_cast<int>(std::min<std::int64_t>(config_.batchsize, engine->options().max_batch));
    options.log = log_;
    try {
      return pictures::Classifier(engine, std::move(options));
    } catch (const Error& error) {
      throw error.inside(of.file.string());
    }
  }

  void classify(pictures::Classifier& with, const Unit& unit, const Take& take, const std::stop_token& stop) const {
    std::vector<pictures::PictureFile> files;
    files.reserve(unit.items.size());
    for (const Item item : unit.items) files.push_back(pictures_[item % pictures_.size()]);
    std::vector<Outcome> outcomes;
    const auto most = static_cast<std::size_t>(config_.batchsize);
    const auto hand_over = [&] {
      if (!outcomes.empty()) take(outcomes);
      outcomes.clear();
    };
    for (const pictures::Result& result : with.classify(pictures::PictureSource::files(std::move(files)))) {
      Outcome outcome{unit.items[result.index], {}, result.failure};
      for (const auto& best : result.best) outcome.best.emplace_back(best.index, best.score);
      outcomes.push_back(std::move(outcome));
      if (outcomes.size() == most) hand_over();
      if (stop.stop_requested()) break;
    }
    hand_over();
  }

  const Config& config_;
  const PictureFiles& pictures_;
  std::optional<int> gpu_;
  int threads_;
  std::shared_ptr<const Loader> loader_;
  LogCallback log_;
  std::map<std::size_t, pictures::Classifier> classifiers_;  ///< by model
};

#ifdef MOBICUDA_WITH_CUDA

std::string gpu_name(int gpu) {
  cudaDeviceProp properties{};
  return cudaGetDeviceProperties(&properties, gpu) == cudaSuccess ? properties.name : "GPU";
}

std::function<Load()> gpu_load(int gpu) {
  constexpr int kIdBytes = 32;
  char id[kIdBytes] = {};
  const bench::NvmlApi* const nvml = bench::load_nvml();
  if (nvml == nullptr || cudaDeviceGetPCIBusId(id, kIdBytes, gpu) != cudaSuccess) return {};
  const auto device = bench::NvmlDevice::find(*nvml, id);
  if (!device) return {};
  return [device = *device] {
    const bench::GpuReading reading = device.read();
    return Load{reading.gpu_percent, reading.power_w};
  };
}

#else

std::string gpu_name(int) { return "GPU"; }
std::function<Load()> gpu_load(int) { return {}; }

#endif

}  // namespace

#ifdef MOBICUDA_WITH_CUDA
int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
#else
int gpu_count() { return 0; }
#endif

std::vector<Processor> make_processors(const Config& config, const PictureFiles& pictures,
                                       std::vector<ModelSummary>& models, const LogCallback& log) {
  const int there = gpu_count();
  const int wanted = config.gpu_num.value_or(there);
  if (wanted > there) {
    throw Error(ErrorCode::device_unavailable, "'gpu_num'",
                "is " + std::to_string(wanted) + ", this machine shows " + std::to_string(there) + " GPUs",
                "0 takes the CPU");
  }
  if (!config.gpu_num && there == 0 && log) log(LogLevel::Info, "no GPU: the CPU engine classifies, on all cores");

  models.clear();
  for (const ModelConfig& model : config.models) {
    std::error_code failed;
    const std::uintmax_t bytes = std::filesystem::file_size(model.file, failed);
    if (failed) throw Error(ErrorCode::io, model.file.string(), "the model cannot be read: " + failed.message());
    models.push_back({model.name, bytes, 0});
  }
  std::vector<Processor> processors;
  for (int i = 0; i < std::max(wanted, 1); ++i) {
    const std::optional<int> gpu = wanted > 0 ? std::optional(i) : std::nullopt;
    Processor& processor = processors.emplace_back();
    processor.gpu = gpu;
    processor.name = gpu ? "GPU " + std::to_string(i) + " " + gpu_name(i) : "CPU";
    if (gpu) processor.load = gpu_load(i);
    // What every processor, or every batch that reads its model anew, would say is said once, or not at all.
    const LogCallback once = i == 0 && config.preload ? log : LogCallback{};
    const auto loader = std::make_shared<const Loader>(config, gpu, once);
    std::vector<EngineWorker*> workers;
    const std::size_t count = gpu ? kWorkersOfGpu : 1;
    const int threads = reading_threads(count * static_cast<std::size_t>(std::max(wanted, 1)));
    for (std::size_t worker = 0; worker < count; ++worker) {
      auto made =
          std::make_unique<EngineWorker>(config, pictures, gpu, threads, loader, worker == 0 ? once : LogCallback{});
      workers.push_back(made.get());
      processor.workers.push_back(std::move(made));
    }
    for (std::size_t model = 0; config.preload && model < config.models.size(); ++model) {
      const auto engine = loader->load(config.models[model]);
      models[model].weight_bytes = engine->memory().weight_bytes;
      for (EngineWorker* worker : workers) worker->preload(model, engine);
    }
  }
  return processors;
}

}  // namespace mobicuda::stream
