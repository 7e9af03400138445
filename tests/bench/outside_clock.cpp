// Times the custom engine from outside, as a program that uses the library would: its own stream and buffers, nothing
// of bench_engine. Bursts of run_on_device() in a row, each between two CUDA events and two readings of the host's
// clock. scripts/gpu_check compares all three.
//
//   outside_clock MODEL.onnx PRECISION BATCH SECONDS
//
// prints one line of JSON: the time of a run by events, median of the bursts, and by the host's clock, their mean; and
// how many runs there were in SECONDS.
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

// Long against what the first launch and the wait for the last run take.
constexpr double kBurstMs = 50;
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

// A burst of runs in a row, from an idle GPU to an idle GPU: milliseconds of a run by two clocks.
struct Burst {
  double by_events;
  double by_host;
};

class Stopwatch {
 public:
  Stopwatch() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaEventCreate(&start_));
    check(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    static_cast<void>(cudaEventDestroy(end_));
    static_cast<void>(cudaEventDestroy(start_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // Of calls that enqueue work on a stream.
  template <class Call>
  Burst burst(Call call, std::int64_t runs) {
    const auto begin = std::chrono::steady_clock::now();
    check(cudaEventRecord(start_, stream_));
    for (std::int64_t i = 0; i < runs; ++i) call(stream_);
    check(cudaEventRecord(end_, stream_));
    check(cudaStreamSynchronize(stream_));
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begin;
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start_, end_));
    const auto count = static_cast<double>(runs);
    return {static_cast<double>(ms) / count, passed.count() / count};
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
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
  std::int64_t runs = 1;
  while (Clock::now() < begin) {
    runs = std::max<std::int64_t>(1, static_cast<std::int64_t>(kBurstMs / stopwatch.burst(call, runs).by_host));
  }
  std::vector<double> by_events;
  double by_host = 0;
  const auto end = begin + std::chrono::duration<double>(seconds);
  do {
    const Burst burst = stopwatch.burst(call, runs);
    by_events.push_back(burst.by_events);
    by_host += burst.by_host;
  } while (Clock::now() < end);
  const auto bursts = static_cast<std::int64_t>(by_events.size());
  const auto middle = by_events.begin() + static_cast<std::ptrdiff_t>(by_events.size() / 2);
  std::nth_element(by_events.begin(), middle, by_events.end());
  std::cout << "{\"precision\": \"" << precision << "\", \"batch\": " << batch << ", \"medianMs\": " << *middle
            << ", \"wallMs\": " << by_host / static_cast<double>(bursts) << ", \"runs\": " << runs * bursts << "}\n";
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
