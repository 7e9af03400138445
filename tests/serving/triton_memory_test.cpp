// Requests whose tensors lie in GPU memory, as CUDA shared memory puts them: the answers are those to the same images
// in the host's memory, in every bit.
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "serving/fake_server.h"
#include "support/catch.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include "triton/device_memory.h"
#include "triton/instance.h"

namespace {

using namespace mobicuda;
using triton::Json;

constexpr std::int64_t kSide = 64;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kMostImages = 8;
constexpr std::size_t kElements = 3 * kSide * kSide;

int gpus() {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  return count;
}

// Bytes on a GPU.
class OnDevice {
 public:
  OnDevice(int device, const std::string& bytes) {
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    REQUIRE(cudaMalloc(&memory_, bytes.size()) == cudaSuccess);
    REQUIRE(cudaMemcpy(memory_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~OnDevice() { cudaFree(memory_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  const void* data() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

// A model of floats or of pixels, and what runs its requests on a processor.
class Served {
 public:
  Served(const char* data_type, const triton::Processor& processor)
      : floats_(std::string_view(data_type) == "TYPE_FP32"), config_(config_of(data_type)) {
    const auto version = folder_.path() / "m" / "1";
    std::filesystem::create_directories(version);
    zoo::write_model(
        zoo::build_mobilenet_v2(
            {.width = 0.35, .height = kSide, .picture_width = kSide, .classes = kClasses, .blocks = 3, .seed = 3}),
        version / "model.onnx");
    model_.emplace(triton::ModelPlace{.name = "m", .version = 1, .folder = version}, config_, metrics_);
    engine_ = model_->engine(processor);
    runner_ = triton::make_runner(*model_, processor, *engine_);
  }

  // Images of a request, different for each seed.
  std::string images(std::int64_t count, std::uint32_t seed) const {
    const auto values = test::random_uniform(seed, static_cast<std::size_t>(count) * kElements, 0, 255.99F);
    std::string bytes;
    for (const float value : values) {
      if (floats_) {
        const float scaled = value / 127.5F - 1;
        bytes.append(reinterpret_cast<const char*>(&scaled), sizeof scaled);
      } else {
        bytes += static_cast<char>(static_cast<unsigned char>(value));
      }
    }
    return bytes;
  }

  // One batch; each request's images lie at `places[i]`, or in the host's memory where that is null.
  std::vector<float> run(const std::vector<std::string>& images, const std::vector<const void*>& places) {
    std::vector<TRITONBACKEND_Request> handles(images.size());
    std::vector<triton::Request> requests;
    requests.reserve(images.size());
    std::vector<triton::Request*> batch;
    for (std::size_t i = 0; i < images.size(); ++i) {
      test::FakeInput input;
      input.type = floats_ ? TRITONSERVER_TYPE_FP32 : TRITONSERVER_TYPE_UINT8;
      const auto n = static_cast<std::int64_t>(images[i].size() / kElements / (floats_ ? sizeof(float) : 1));
      input.shape =
          floats_ ? std::vector<std::int64_t>{n, 3, kSide, kSide} : std::vector{n, kSide, kSide, std::int64_t{3}};
      input.buffers = {images[i]};
      input.elsewhere = places[i];
      input.memory = places[i] != nullptr ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
      handles[i].inputs.push_back({std::move(input)});
      requests.emplace_back(&handles[i]).read(*model_);
      batch.push_back(&requests.back());
    }
    const auto results = runner_->run(batch);
    CHECK(results.failures.empty());
    return {results.logits.begin(), results.logits.end()};
  }

 private:
  static Json config_of(const char* data_type) {
    return {{"max_batch_size", kMostImages},
            {"input", Json::array({{{"name", ""}, {"data_type", data_type}, {"dims", Json::array()}}})}};
  }

  bool floats_;
  Json config_;
  TemporaryFolder folder_;
  triton::Metrics metrics_;
  std::optional<triton::Model> model_;
  std::shared_ptr<const triton::EngineInUse> engine_;
  std::unique_ptr<triton::Runner> runner_;
};

}  // namespace

TEST_CASE("images in GPU memory are answered as those in the host's") {
  for (const char* type : {"TYPE_FP32", "TYPE_UINT8"}) {
    for (const bool on_gpu : {true, false}) {
      CAPTURE(type, on_gpu);
      Served served(type, on_gpu ? triton::Processor{0} : triton::Processor{});
      const std::vector<std::string> images{served.images(3, 1), served.images(1, 2), served.images(4, 3)};
      const std::vector<float> right = served.run(images, {nullptr, nullptr, nullptr});
      REQUIRE(right.size() == static_cast<std::size_t>(kMostImages * kClasses));
      const OnDevice first(0, images[0]);
      const OnDevice last(gpus() - 1, images[2]);  // another GPU's, where there are two
      CHECK(served.run(images, {first.data(), nullptr, last.data()}) == right);
      CHECK(served.run(images, {nullptr, nullptr, nullptr}) == right);
      CHECK(served.run({images[2]}, {last.data()}) == served.run({images[2]}, {nullptr}));
    }
  }
}

TEST_CASE("memory that is no GPU's is not taken for one") {
  std::vector<float> host(16);
  REQUIRE_THROWS_AS(triton::device_of(host.data()), Error);
  const OnDevice there(gpus() - 1, std::string(64, 'x'));
  CHECK(triton::device_of(there.data()) == gpus() - 1);
}

TEST_CASE("tensors are copied between memory of any kind") {
  const std::string bytes = "sixteen bytes...";
  const OnDevice there(0, std::string(bytes.size(), '\0'));
  triton::copy_any(const_cast<void*>(there.data()), bytes.data(), bytes.size());
  std::string back(bytes.size(), '\0');
  triton::copy_any(back.data(), there.data(), back.size());
  CHECK(back == bytes);
}
