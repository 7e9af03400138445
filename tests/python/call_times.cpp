// What calls take without Python, for gpu_check.py, which takes the same times from Python.
//
//   call_times MODEL.onnx custom|cpu PRECISION SECONDS
//
// prints one line of JSON: of custom the microseconds of run_on_device() with one image, medians: the call alone, the
// call until its output is there, and one of many in a row; and images a second of kThreads threads that share
// kSessions sessions, from host to host, one image a call.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if MOBICUDA_HAS_CUDA
#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>
#endif
#include <mobicuda/mobicuda.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kThreads = 8;
constexpr int kSessions = 4;  // mobicuda.InferenceSession's own number

mobicuda::Precision parse_precision(const std::string& text) {
  for (const auto precision : {mobicuda::Precision::Fp32, mobicuda::Precision::Fp16, mobicuda::Precision::Fp64}) {
    if (text == to_string(precision)) return precision;
  }
  throw std::runtime_error("no precision: " + text);
}

std::shared_ptr<const mobicuda::Engine> compile(const std::string& model, const std::string& backend,
                                                const std::string& precision) {
  mobicuda::EngineOptions options;
  options.precision = parse_precision(precision);
  options.max_batch = 8;
  options.threads = 1;  // of the CPU engine: the callers are the threads
  const auto made = backend == "cpu" ? mobicuda::make_cpu_backend() : mobicuda::make_custom_backend();
  return made->compile(mobicuda::onnx_import::load(model), options);
}

#if MOBICUDA_HAS_CUDA
constexpr int kCalls = 300;
constexpr int kBursts = 20;
constexpr int kBurst = 200;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct DeviceFloats {
  explicit DeviceFloats(std::int64_t count) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(float)));
    check(cudaMemset(memory, 0, static_cast<std::size_t>(count) * sizeof(float)));
    data = static_cast<float*>(memory);
  }
  ~DeviceFloats() { static_cast<void>(cudaFree(data)); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* data = nullptr;
};

std::string device_times(const mobicuda::Engine& engine) {
  const auto session = engine.create_session();
  const DeviceFloats input(engine.input().shape.elements());
  const DeviceFloats output(engine.output().shape.elements());
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto call = [&] { mobicuda::run_on_device(*session, 1, input.data, output.data, stream); };
  for (int i = 0; i < 50; ++i) call();
  check(cudaStreamSynchronize(stream));
  std::vector<double> calls;
  std::vector<double> whole;
  for (int i = 0; i < kCalls; ++i) {
    const auto begin = Clock::now();
    call();
    calls.push_back(us_since(begin));
    check(cudaStreamSynchronize(stream));
    whole.push_back(us_since(begin));
  }
  std::vector<double> in_a_row;
  for (int i = 0; i < kBursts; ++i) {
    const auto begin = Clock::now();
    for (int run = 0; run < kBurst; ++run) call();
    check(cudaStreamSynchronize(stream));
    in_a_row.push_back(us_since(begin) / kBurst);
  }
  check(cudaStreamDestroy(stream));
  return "\"call_us\": " + std::to_string(median(calls)) + ", \"whole_us\": " + std::to_string(median(whole)) +
         ", \"in_a_row_us\": " + std::to_string(median(in_a_row)) + ", ";
}
#else
std::string device_times(const mobicuda::Engine& /*engine*/) {
  throw std::runtime_error("this build has no custom engine");
}
#endif

class Pool {
 public:
  explicit Pool(const mobicuda::Engine& engine) {
    for (int i = 0; i < kSessions; ++i) free_.push_back(engine.create_session());
  }

  void run(const std::vector<float>& input, std::vector<float>& output) {
    std::unique_ptr<mobicuda::Session> session;
    {
      std::unique_lock lock(mutex_);
      freed_.wait(lock, [this] { return !free_.empty(); });
      session = std::move(free_.back());
      free_.pop_back();
    }
    session->run(input, output);
    {
      const std::scoped_lock lock(mutex_);
      free_.push_back(std::move(session));
    }
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<mobicuda::Session>> free_;
};

double threads_rate(const mobicuda::Engine& engine, double seconds) {
  Pool pool(engine);
  std::atomic<std::int64_t> images = 0;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(seconds);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const std::vector<float> input(static_cast<std::size_t>(engine.input().shape.elements()));
        std::vector<float> output(static_cast<std::size_t>(engine.output().shape.elements()));
        while (Clock::now() < end) {
          pool.run(input, output);
          ++images;
        }
      });
    }
  }
  return static_cast<double>(images) / std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) throw std::runtime_error("usage: call_times MODEL.onnx custom|cpu PRECISION SECONDS");
    const std::string backend = argv[2];
    const auto engine = compile(argv[1], backend, argv[3]);
    const std::string device = backend == "cpu" ? "" : device_times(*engine);
    std::cout << "{" << device << "\"threads_images_per_second\": " << threads_rate(*engine, std::stod(argv[4]))
              << "}\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "call_times: " << error.what() << '\n';
    return 1;
  }
}
