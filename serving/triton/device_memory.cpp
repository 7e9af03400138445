#include "triton/device_memory.h"

#include <mutex>
#include <set>
#include <utility>

#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>
#include <mobicuda/error.h>

#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"

namespace mobicuda::triton {
namespace {

// An instance's thread has the engine's GPU as its own from here on.
int choose(int device) {
  cuda_check(cudaSetDevice(device), "choosing the GPU of an instance");
  return device;
}

// Lets `device`, the thread's own, read another one's memory: what lies there would come through the host's otherwise.
// Once for each two in a process.
void open_way(int device, int other) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> open;
  if (other == device) return;
  const std::scoped_lock lock(mutex);
  if (!open.emplace(device, other).second) return;
  int possible = 0;
  cuda_check(cudaDeviceCanAccessPeer(&possible, device, other), "looking for a way between GPUs");
  if (possible == 0) return;
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // by somebody else in the process; the next call would tell it again
  } else {
    cuda_check(status, "opening the way between GPUs");
  }
}

class Runs final : public DeviceRuns {
 public:
  Runs(Session& session, const Engine& engine)
      : session_(session),
        device_(choose(engine.options().device)),
        floats_(engine.input().dtype == DType::F32),
        classes_(engine.output().shape.elements()),
        input_(bytes_of(engine, engine.input()), "images of requests in GPU memory"),
        output_(bytes_of(engine, engine.output()), "outputs of images in GPU memory"),
        host_(output_.bytes(), "outputs of images in GPU memory"),
        // An instance that waits leaves its core to the server's threads.
        done_(cudaEventDisableTiming | cudaEventBlockingSync) {}

  std::span<const float> run(std::span<const Piece> pieces, std::int64_t images) override {
    try {
      return run_on(pieces, images);
    } catch (...) {
      cudaStreamSynchronize(stream_.get());  // what is under way still reads the pieces
      throw;
    }
  }

 private:
  static std::int64_t bytes_of(const Engine& engine, const TensorDesc& image) {
    return checked_multiply(checked_multiply(engine.options().max_batch, image.shape.elements()), size_of(image.dtype));
  }

  std::span<const float> run_on(std::span<const Piece> pieces, std::int64_t images) {
    auto* to = static_cast<std::byte*>(input_.data());
    for (const Piece& piece : pieces) {
      if (piece.device) open_way(device_, *piece.device);
      cuda_check(cudaMemcpyAsync(to, piece.bytes.data(), piece.bytes.size(), cudaMemcpyDefault, stream_.get()),
                 "gathering images in GPU memory");
      to += piece.bytes.size();
    }
    auto* const output = static_cast<float*>(output_.data());
    if (floats_) {
      run_on_device(session_, images, static_cast<const float*>(input_.data()), output, stream_.get());
    } else {
      run_on_device(session_, images, static_cast<const std::uint8_t*>(input_.data()), output, stream_.get());
    }
    const std::span<float> logits(reinterpret_cast<float*>(host_.data()), static_cast<std::size_t>(images * classes_));
    cuda_check(cudaMemcpyAsync(logits.data(), output, logits.size_bytes(), cudaMemcpyDeviceToHost, stream_.get()),
               "copying outputs from the GPU");
    cuda_check(cudaEventRecord(done_.get(), stream_.get()), "marking the end of a run");
    cuda_check(cudaEventSynchronize(done_.get()), "running on images in GPU memory");
    return logits;
  }

  Session& session_;
  int device_;
  bool floats_;
  std::int64_t classes_;
  DeviceBuffer input_;
  DeviceBuffer output_;
  PinnedBuffer host_;
  Stream stream_;
  Event done_;
};

}  // namespace

int device_of(const void* buffer) {
  cudaPointerAttributes attributes{};
  cuda_check(cudaPointerGetAttributes(&attributes, buffer), "finding the GPU of a tensor");
  if (attributes.type == cudaMemoryTypeDevice) return attributes.device;
  throw Error(ErrorCode::invalid_argument, "a tensor in GPU memory", "lies in no GPU's memory that the process knows");
}

void copy_any(void* to, const void* from, std::size_t bytes) {
  cuda_check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying a tensor to or from GPU memory");
}

std::unique_ptr<DeviceRuns> make_device_runs(Session& session, const Engine& engine) {
  return std::make_unique<Runs>(session, engine);
}

}  // namespace mobicuda::triton
