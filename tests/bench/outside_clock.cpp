// Times the custom engine from outside, as a program that uses the library would: its own stream and buffers, nothing
// of bench_engine. First CUDA events around each run_on_device(); then, without any, the host's clock around many of
// them. scripts/gpu_check compares all three.
//
//   outside_clock MODEL.onnx PRECISION BATCH SECONDS
//
// prints one line of JSON: by events the median time of a run and of how many, by the host's clock the mean and of how
// many. Each takes SECONDS.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>
#include <mobicuda/mobicuda.h>

namespace {

// Runs between two waits: the GPU stays busy, and the host far enough ahead.
constexpr int kBurst = 64;
constexpr std::chrono::milliseconds kWarmUp{200};
constexpr unsigned kSeed = 1;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

struct DeviceFloats {
  explicit DeviceFloats(std::int64_t count) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(float)));
    data = static_cast<float*>(memory);
  }
  ~DeviceFloats() { static_cast<void>(cudaFree(data)); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* data = nullptr;
};

void fill(const DeviceFloats& buffer, std::int64_t count) {
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(random);
  check(cudaMemcpy(buffer.data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
}

class Stopwatch {
 public:
  Stopwatch() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (auto* events : {&starts_, &ends_}) {
      events->resize(kBurst);
      for (cudaEvent_t& event : *events) check(cudaEventCreate(&event));
    }
  }
  ~Stopwatch() {
    for (const auto* events : {&starts_, &ends_}) {
      for (const cudaEvent_t event : *events) static_cast<void>(cudaEventDestroy(event));
    }
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // Mean milliseconds of `runs` calls in a row by the host's clock, from an idle GPU to an idle GPU.
  template <class Call>
  double wall(Call call, std::int64_t runs) {
    check(cudaStreamSynchronize(stream_));
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < runs; ++i) call(stream_);
    check(cudaStreamSynchronize(stream_));
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
    return passed.count() / static_cast<double>(runs);
  }

  // Milliseconds of each of kBurst calls that enqueue work on a stream.
  template <class Call>
  std::vector<double> burst(Call call) {
    call(stream_);  // the first timed one then does not wait for the host
    for (std::size_t i = 0; i < kBurst; ++i) {
      check(cudaEventRecord(starts_[i], stream_));
      call(stream_);
      check(cudaEventRecord(ends_[i], stream_));
    }
    check(cudaStreamSynchronize(stream_));
    std::vector<double> times;
    for (std::size_t i = 0; i < kBurst; ++i) {
      float ms = 0;
      check(cudaEventElapsedTime(&ms, starts_[i], ends_[i]));
      times.push_back(ms);
    }
    return times;
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> starts_;
  std::vector<cudaEvent_t> ends_;
};

mobicuda::Precision parse_precision(const std::string& text) {
  for (const auto precision : {mobicuda::Precision::Fp32, mobicuda::Precision::Fp16, mobicuda::Precision::Fp64}) {
    if (text == to_string(precision)) return precision;
  }
  throw std::runtime_error("no precision of the custom engine: " + text);
}

void measure(const std::string& model, const std::string& precision, std::int64_t batch, double seconds) {
  mobicuda::EngineOptions options;
  options.precision = parse_precision(precision);
  options.max_batch = batch;
  const auto engine = mobicuda::make_custom_backend()->compile(mobicuda::onnx_import::load(model), options);
  const auto session = engine->create_session();
  const std::int64_t input_count = batch * engine->input().shape.elements();
  const DeviceFloats input(input_count);
  const DeviceFloats output(batch * engine->output().shape.elements());
  fill(input, input_count);

  Stopwatch stopwatch;
  const auto call = [&](cudaStream_t stream) {
    mobicuda::run_on_device(*session, batch, input.data, output.data, stream);
  };
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now() + kWarmUp;
  while (Clock::now() < begin) stopwatch.burst(call);
  std::vector<double> times;
  const auto end = begin + std::chrono::duration<double>(seconds);
  do {
    const std::vector<double> more = stopwatch.burst(call);
    times.insert(times.end(), more.begin(), more.end());
  } while (Clock::now() < end);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  const double median = *middle;
  const auto wall_runs = std::max<std::int64_t>(kBurst, static_cast<std::int64_t>(seconds * 1000 / median));
  const double wall = stopwatch.wall(call, wall_runs);
  std::cout << "{\"precision\": \"" << precision << "\", \"batch\": " << batch << ", \"medianMs\": " << median
            << ", \"runs\": " << times.size() << ", \"wallMs\": " << wall << ", \"wallRuns\": " << wall_runs << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) throw std::runtime_error("usage: outside_clock MODEL.onnx PRECISION BATCH SECONDS");
    measure(argv[1], argv[2], std::stoll(argv[3]), std::stod(argv[4]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "outside_clock: " << error.what() << '\n';
    return 1;
  }
}
