// The C interface on the GPU: the bits of C++, streams and device pointers.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <mobicuda/mobicuda.h>
#include <mobicuda/mobicuda_c.h>
#include <mobicuda_onnx.pb.h>

#include "models/zoo/mobilenet_v2.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/device_tensor.h"
#include "support/random.h"

namespace mobicuda {
namespace {

using test::check_cuda;

constexpr std::int64_t kMaxBatch = 8;
constexpr std::size_t kPixels = 3UL * 96 * 96;
constexpr std::size_t kClasses = 52;  // so that the outputs of every picture start at a multiple of 16 bytes

std::string model_bytes() {
  return zoo::build_mobilenet_v2({.width = 0.35, .height = 96, .picture_width = 96, .classes = kClasses, .seed = 3})
      .SerializeAsString();
}

mobicuda_session* new_session(const std::string& bytes, bool pictures, std::int32_t no_cuda_graph = 0) {
  mobicuda_engine_options options{};
  options.struct_size = sizeof options;
  options.precision = MOBICUDA_PRECISION_FP16;
  options.max_batch = kMaxBatch;
  options.no_cuda_graph = no_cuda_graph;
  options.specialise = MOBICUDA_SPECIALISE_NEVER;
  options.picture_input = pictures ? 1 : 0;
  for (float& scale : options.picture_scale) scale = 1.0F / 128;
  for (float& shift : options.picture_shift) shift = -1.0F;
  mobicuda_engine* engine = nullptr;
  const mobicuda_status status =
      mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", nullptr, &options, &engine);
  INFO(mobicuda_last_error_text());
  REQUIRE(status == MOBICUDA_OK);
  mobicuda_session* session = nullptr;
  REQUIRE(mobicuda_session_create(engine, &session) == MOBICUDA_OK);
  mobicuda_engine_destroy(engine);
  return session;
}

std::shared_ptr<const Engine> same_engine(const std::string& bytes, bool pictures) {
  EngineOptions options;
  options.precision = Precision::Fp16;
  options.max_batch = kMaxBatch;
  options.specialise = Specialise::Never;
  if (pictures) options.picture_input = PictureInput{{1.0F / 128, 1.0F / 128, 1.0F / 128}, {-1.0F, -1.0F, -1.0F}};
  return make_custom_backend()->compile(onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "model"),
                                        options);
}

// Device memory with a copy of `values`.
template <class T>
T* on_device(const std::vector<T>& values) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, values.size() * sizeof(T)), "cudaMalloc");
  check_cuda(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return static_cast<T*>(memory);
}

template <class T, class Run>
void check_on_device(const std::vector<T>& input, const std::vector<float>& expected, Run run) {
  T* const x = on_device(input);
  float* const y = on_device(std::vector<float>(expected.size(), -77.0F));
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const mobicuda_status status = run(x, y, static_cast<void*>(stream));
  INFO(mobicuda_last_error_text());
  REQUIRE(status == MOBICUDA_OK);
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<float> output(expected.size());
  check_cuda(cudaMemcpy(output.data(), y, output.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  CHECK(output == expected);
  cudaStreamDestroy(stream);
  cudaFree(x);
  cudaFree(y);
}

}  // namespace

TEST_CASE("c_api: floats on the GPU give the bits of C++, from the host, staged and on the device") {
  const std::string bytes = model_bytes();
  for (const std::size_t n : {1, 3, 8}) {
    const std::vector<float> input = test::random_uniform(static_cast<std::uint32_t>(n), n * kPixels);
    std::vector<float> expected(n * kClasses);
    same_engine(bytes, false)->create_session()->run(input, expected);

    mobicuda_session* session = new_session(bytes, false, n == 3 ? 1 : 0);
    std::vector<float> output(expected.size());
    REQUIRE(mobicuda_session_run(session, input.data(), input.size(), output.data(), output.size()) == MOBICUDA_OK);
    CHECK(output == expected);
    const auto images = static_cast<std::int64_t>(n);
    float* staged = nullptr;
    const float* staged_output = nullptr;
    REQUIRE(mobicuda_session_staged_input(session, images, &staged) == MOBICUDA_OK);
    std::copy(input.begin(), input.end(), staged);
    REQUIRE(mobicuda_session_run_staged(session, images) == MOBICUDA_OK);
    REQUIRE(mobicuda_session_staged_output(session, images, &staged_output) == MOBICUDA_OK);
    CHECK(std::equal(expected.begin(), expected.end(), staged_output));
    check_on_device(input, expected, [&](const float* x, float* y, void* stream) {
      return mobicuda_session_run_on_device(session, images, x, y, stream);
    });
    mobicuda_session_destroy(session);
  }
}

TEST_CASE("c_api: bytes on the GPU give the bits of C++") {
  const std::string bytes = model_bytes();
  const std::vector<float> numbers = test::random_uniform(9, 2 * kPixels, 0.0F, 255.99F);
  const std::vector<std::uint8_t> pictures(numbers.begin(), numbers.end());
  std::vector<float> expected(2 * kClasses);
  same_engine(bytes, true)->create_session()->run(pictures, expected);
  mobicuda_session* session = new_session(bytes, true);
  std::vector<float> output(expected.size());
  REQUIRE(mobicuda_session_run_bytes(session, pictures.data(), pictures.size(), output.data(), output.size()) ==
          MOBICUDA_OK);
  CHECK(output == expected);
  check_on_device(pictures, expected, [&](const std::uint8_t* x, float* y, void* stream) {
    return mobicuda_session_run_on_device_bytes(session, 2, x, y, stream);
  });
  mobicuda_session_destroy(session);
}

TEST_CASE("c_api: pointers and numbers that cannot be on the device are refused") {
  mobicuda_session* session = new_session(model_bytes(), false);
  const std::vector<float> host(kPixels);
  std::vector<float> output(kClasses);
  float* x = on_device(host);
  float* y = on_device(output);
  CHECK(mobicuda_session_run_on_device(session, 1, host.data(), y, nullptr) == MOBICUDA_INVALID_ARGUMENT);
  CHECK(mobicuda_session_run_on_device(session, 0, x, y, nullptr) == MOBICUDA_INVALID_ARGUMENT);
  CHECK(mobicuda_session_run_on_device(session, kMaxBatch + 1, x, y, nullptr) == MOBICUDA_INVALID_ARGUMENT);
  CHECK(mobicuda_session_run_on_device(session, 1, x + 1, y, nullptr) == MOBICUDA_INVALID_ARGUMENT);
  CHECK(mobicuda_session_run_on_device(session, 1, x, nullptr, nullptr) == MOBICUDA_INVALID_ARGUMENT);
  CHECK(mobicuda_session_run_on_device(session, 1, x, y, nullptr) == MOBICUDA_OK);
  CHECK(mobicuda_session_synchronize(session) == MOBICUDA_OK);
  mobicuda_session_destroy(session);
  cudaFree(x);
  cudaFree(y);
}

}  // namespace mobicuda
