#include "runtime/cuda_session.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "runtime/cuda_check.h"

namespace mobicuda {
namespace {

// Graphs that a session keeps: of batch sizes between its own buffers, and of batch sizes and buffers of callers. When
// they are all in use, one that rested for so many runs may give way: docs/architecture.md, "Captured runs".
constexpr std::size_t kOwnRuns = 128;
constexpr std::size_t kCallerRuns = 64;
constexpr std::uint64_t kPatience = 1000;

// Up to so many bytes, a last kernel that writes the host's memory over the bus is faster than a copy after it. First
// kernels that read it never were: docs/performance.md, "From host to host".
constexpr std::size_t kMostDirectOutput = std::size_t{64} * 1024;

// Waiting on the CPU costs some microseconds more than asking again and again; not for long runs.
constexpr std::chrono::microseconds kSpin{500};

std::size_t bytes_of(std::int64_t n, const TensorDesc& picture) {
  return static_cast<std::size_t>(n * picture.shape.elements() * size_of(picture.dtype));
}

}  // namespace

CudaSession::CudaSession(std::shared_ptr<const CudaEngine> engine)
    : Session(engine),
      cuda_engine_(std::move(engine)),
      own_runs_(kOwnRuns, kPatience),
      caller_runs_(kCallerRuns, kPatience) {
  allocate_buffers();
  if (network().make_session_state) session_state_ = network().make_session_state(stream_.get());
}

CudaSession::~CudaSession() {
  leaving_.emplace(cuda_engine_->device(), std::nothrow);
  order_.wait();
}

void CudaSession::allocate_buffers() {
  const std::int64_t max_batch = cuda_engine_->options().max_batch;
  const bool guarded = cuda_engine_->options().guarded_arena;
  input_ = DeviceBuffer(cuda_engine_->input_buffer_bytes(), "the input");
  output_ = DeviceBuffer(static_cast<std::int64_t>(bytes_of(max_batch, cuda_engine_->output())), "the output");
  workspace_ = DeviceBuffer(network().workspace_bytes, "the workspace");
  // A plan with a minimum batch reads images that nobody set.
  cuda_check(cudaMemsetAsync(input_.data(), 0, static_cast<std::size_t>(input_.bytes()), stream_.get()),
             "clearing the input");
  if (!guarded) arena_.emplace_back(cuda_engine_->memory().arena_bytes, "activations");
  for (const CudaPlan& plan : network().plans) {
    std::vector<void*>& buffers = buffers_.emplace_back(plan.buffers.size());
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
      const CudaBuffer& buffer = plan.buffers[i];
      if (buffer.place != CudaBuffer::Place::Arena) continue;
      if (guarded) {
        arena_.emplace_back(buffer.bytes, "an activation");
        buffers[i] = arena_.back().data();
      } else {
        buffers[i] = static_cast<std::byte*>(arena_.front().data()) + buffer.offset;
      }
    }
  }
}

std::unique_lock<std::mutex> CudaSession::take_turn() const {
  return network().take_turn ? network().take_turn() : std::unique_lock<std::mutex>();
}

void CudaSession::bind_ends(std::int64_t n, const Ends& ends) {
  const CudaPlan& running = plan(n);
  std::vector<void*>& buffers = buffers_[network().plan_for(n)];
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    // Steps take void*; none writes to the input.
    if (running.buffers[i].place == CudaBuffer::Place::Input) buffers[i] = const_cast<void*>(ends.input);
    if (running.buffers[i].place == CudaBuffer::Place::Output) buffers[i] = ends.output;
  }
}

CudaStepContext CudaSession::context_for(std::int64_t n, cudaStream_t stream) const {
  CudaStepContext context;
  context.n = std::max(n, network().min_batch);
  context.stream = stream;
  context.buffers = buffers_[network().plan_for(n)].data();
  context.workspace = workspace_.data();
  context.session_state = session_state_.get();
  return context;
}

void CudaSession::enqueue_step(const CudaStep& step, const CudaStepContext& context) {
  cuda_check(step.enqueue(context), "layer '" + step.info.name + "'");
}

void CudaSession::enqueue_steps(std::int64_t n, cudaStream_t stream, bool programmatic, std::size_t count) {
  CudaStepContext context = context_for(n, stream);
  for (const CudaStep& step : std::span(plan(n).steps).first(count)) {
    enqueue_step(step, context);
    context.programmatic = programmatic;
  }
}

void CudaSession::enqueue(std::int64_t n, const Ends& ends, cudaStream_t stream) {
  if (ends.copied_from != nullptr) {
    cuda_check(cudaMemcpyAsync(const_cast<void*>(ends.input), ends.copied_from, input_bytes(n), cudaMemcpyHostToDevice,
                               stream),
               "copying the input to the device");
  }
  bind_ends(n, ends);
  enqueue_steps(n, stream, cuda_engine_->options().programmatic_launch, plan(n).steps.size());
  if (ends.copied_to != nullptr) {
    cuda_check(cudaMemcpyAsync(ends.copied_to, ends.output, output_bytes(n), cudaMemcpyDeviceToHost, stream),
               "copying the output to the host");
  }
}

const GraphExec* CudaSession::captured(CapturedRuns& runs, std::int64_t n, const Ends& ends) {
  if (!cuda_engine_->options().cuda_graph) return nullptr;
  const RunKey key{n, ends};
  if (const std::unique_ptr<GraphExec>* graph = runs.find(key)) return graph->get();
  return runs.admits(key) ? capture(runs, key) : nullptr;
}

const GraphExec* CudaSession::capture(CapturedRuns& runs, const RunKey& key) {
  const auto turn = take_turn();
  auto graph = std::make_unique<GraphExec>(stream_.get(), [&] { enqueue(key.n, key.ends, stream_.get()); });
  return runs.add(key, std::move(graph)).get();
}

void CudaSession::launch(const GraphExec* graph, std::int64_t n, const Ends& ends, cudaStream_t stream) {
  if (graph != nullptr) return graph->launch(stream);
  const auto turn = take_turn();
  enqueue(n, ends, stream);
}

void CudaSession::execute_on(std::int64_t n, const Ends& ends, cudaStream_t stream) {
  launch(captured(own_runs_, n, ends), n, ends, stream);
}

std::size_t CudaSession::input_bytes(std::int64_t n) const { return bytes_of(n, engine().input()); }

std::size_t CudaSession::output_bytes(std::int64_t n) const { return bytes_of(n, engine().output()); }

void CudaSession::do_set_input(std::span<const std::byte> input, std::int64_t) {
  const OwnStreamUse use(*this);
  cuda_check(cudaMemcpyAsync(input_.data(), input.data(), input.size(), cudaMemcpyHostToDevice, stream_.get()),
             "copying the input to the device");
  cuda_check(cudaStreamSynchronize(stream_.get()), "copying the input to the device");
  input_overwritten_ = false;
}

void CudaSession::allocate_staging() {
  if (staged_input_.data() != nullptr) return;
  const DeviceGuard guard(cuda_engine_->device());
  const std::int64_t max_batch = cuda_engine_->options().max_batch;
  PinnedBuffer input(cuda_engine_->input_buffer_bytes(), "staged inputs");
  staged_output_ = PinnedBuffer(static_cast<std::int64_t>(output_bytes(max_batch)), "staged outputs");
  staged_input_ = std::move(input);
}

std::byte* CudaSession::do_staged_input() {
  allocate_staging();
  return staged_input_.data();
}

float* CudaSession::do_staged_output() {
  allocate_staging();
  return reinterpret_cast<float*>(staged_output_.data());
}

CudaSession::Ends CudaSession::staged_ends(std::int64_t n) const {
  Ends ends = own_ends();
  float* output = reinterpret_cast<float*>(staged_output_.data());
  const HostTransfer transfer = cuda_engine_->options().host_transfer;
  if (transfer == HostTransfer::Direct) {
    ends.input = staged_input_.data();
  } else {
    ends.copied_from = staged_input_.data();
  }
  if (transfer == HostTransfer::Direct || (transfer == HostTransfer::Auto && output_bytes(n) <= kMostDirectOutput)) {
    ends.output = output;
  } else {
    ends.copied_to = output;
  }
  return ends;
}

void CudaSession::do_enqueue_staged(std::int64_t n) {
  allocate_staging();
  const OwnStreamUse use(*this);
  execute_on(n, staged_ends(n), stream_.get());
}

void CudaSession::do_warm_up(std::span<const std::int64_t> batches) {
  if (!cuda_engine_->options().cuda_graph) return;
  const bool staged = staged_input_.data() != nullptr;
  std::vector<RunKey> keys;
  for (const std::int64_t n : batches) {
    keys.push_back({n, own_ends()});
    if (staged) keys.push_back({n, staged_ends(n)});
  }
  if (keys.size() > kOwnRuns) {
    throw Error(ErrorCode::invalid_argument, "warm_up",
                "needs " + std::to_string(keys.size()) + " captured runs, a session keeps " + std::to_string(kOwnRuns),
                std::string("name fewer sizes") +
                    (staged ? ": each needs two, as this session's staged memory was asked for" : ""));
  }
  const OwnStreamUse use(*this);
  // What is there already is looked up first, so that the rest does not take its place.
  std::vector<RunKey> missing;
  for (const RunKey& key : keys) {
    if (own_runs_.find(key) == nullptr) missing.push_back(key);
  }
  for (const RunKey& key : missing) capture(own_runs_, key)->upload(stream_.get());
  cuda_check(cudaStreamSynchronize(stream_.get()), "warming up");
}

void CudaSession::require_own_input(std::string_view call) const {
  if (!input_overwritten_) return;
  throw Error(ErrorCode::invalid_argument, std::string(call),
              "run_on_device() may have overwritten the session's input buffer", "call set_input() again");
}

void CudaSession::do_execute(std::int64_t n) {
  require_own_input("execute");
  const OwnStreamUse use(*this);
  execute_on(n, own_ends(), stream_.get());
  output_overwritten_ = false;
}

void CudaSession::do_get_output(std::span<float> output, std::int64_t) {
  if (output_overwritten_) {
    throw Error(ErrorCode::invalid_argument, "get_output",
                "run_on_device() may have overwritten the session's output buffer", "call execute() again");
  }
  const OwnStreamUse use(*this);
  cuda_check(cudaMemcpyAsync(output.data(), output_.data(), output.size_bytes(), cudaMemcpyDeviceToHost, stream_.get()),
             "copying the output to the host");
  cuda_check(cudaStreamSynchronize(stream_.get()), "running the network");
}

void CudaSession::do_synchronize() {
  const OwnStreamUse use(*this);
  const auto end = std::chrono::steady_clock::now() + kSpin;
  cudaError_t status = cudaErrorNotReady;
  while (status == cudaErrorNotReady && std::chrono::steady_clock::now() < end) status = cudaStreamQuery(stream_.get());
  if (status == cudaErrorNotReady) status = cudaStreamSynchronize(stream_.get());
  cuda_check(status, "running the network");
}

}  // namespace mobicuda
