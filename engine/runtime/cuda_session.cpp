#include "runtime/cuda_session.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include <mobicuda/cuda_interop.h>

#include "graph/logical_floats.h"
#include "runtime/cuda_check.h"
#include "runtime/launch_gate.h"
#include "runtime/nvtx_range.h"

namespace mobicuda {
namespace {

constexpr std::size_t kMaxCapturedRuns = 16;

// Executions between two waits while timing: enough to keep the GPU busy, few enough events.
constexpr int kTimingBurst = 64;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Up to so many bytes, a last kernel that writes the host's memory over the bus is faster than a copy after it. First
// kernels that read it never were: docs/performance.md, "From host to host".
constexpr std::size_t kMostDirectOutput = std::size_t{64} * 1024;

// Waiting on the CPU costs some microseconds more than asking again and again; not for long runs.
constexpr std::chrono::microseconds kSpin{500};

std::size_t bytes_of(std::int64_t n, const TensorDesc& picture) {
  return static_cast<std::size_t>(n * picture.shape.elements() * size_of(picture.dtype));
}

void enqueue_step(const CudaStep& step, const CudaStepContext& context) {
  cuda_check(step.enqueue(context), "layer '" + step.info.name + "'");
}

void record(const Event& event, cudaStream_t stream) {
  cuda_check(cudaEventRecord(event.get(), stream), "recording an event");
}

}  // namespace

GraphExec::GraphExec(cudaStream_t stream, const std::function<void()>& enqueue) {
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "starting a capture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    throw;
  }
  cuda_check(cudaStreamEndCapture(stream, &graph), "ending a capture");
  const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  cuda_check(status, "instantiating a CUDA graph");
}

GraphExec::~GraphExec() {
  if (exec_ != nullptr) static_cast<void>(cudaGraphExecDestroy(exec_));
}

void GraphExec::launch(cudaStream_t stream) const {
  cuda_check(cudaGraphLaunch(exec_, stream), "launching the network");
}

CudaSession::CudaSession(std::shared_ptr<const CudaEngine> engine) : Session(engine), cuda_engine_(std::move(engine)) {
  allocate_buffers();
  if (cuda_engine_->plan().make_session_state) {
    session_state_ = cuda_engine_->plan().make_session_state(stream_.get());
  }
}

CudaSession::~CudaSession() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

void CudaSession::allocate_buffers() {
  const CudaPlan& plan = cuda_engine_->plan();
  const std::int64_t max_batch = cuda_engine_->options().max_batch;
  const bool guarded = cuda_engine_->options().guarded_arena;
  input_ = DeviceBuffer(static_cast<std::int64_t>(bytes_of(max_batch, cuda_engine_->input())), "the input");
  output_ = DeviceBuffer(static_cast<std::int64_t>(bytes_of(max_batch, cuda_engine_->output())), "the output");
  workspace_ = DeviceBuffer(plan.workspace_bytes, "the workspace");
  // A plan with a minimum batch reads pictures that nobody set.
  cuda_check(cudaMemsetAsync(input_.data(), 0, static_cast<std::size_t>(input_.bytes()), stream_.get()),
             "clearing the input");
  if (!guarded) arena_.emplace_back(plan.arena_bytes, "activations");
  buffers_.resize(plan.buffers.size());
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const CudaBuffer& buffer = plan.buffers[i];
    if (buffer.place != CudaBuffer::Place::Arena) continue;
    if (guarded) {
      arena_.emplace_back(buffer.bytes, "an activation");
      buffers_[i] = arena_.back().data();
    } else {
      buffers_[i] = static_cast<std::byte*>(arena_.front().data()) + buffer.offset;
    }
  }
}

std::unique_lock<std::mutex> CudaSession::take_turn() const {
  const auto& take = cuda_engine_->plan().take_turn;
  return take ? take() : std::unique_lock<std::mutex>();
}

void CudaSession::bind_ends(const Ends& ends) {
  const CudaPlan& plan = cuda_engine_->plan();
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    // Steps take void*; none writes to the input.
    if (plan.buffers[i].place == CudaBuffer::Place::Input) buffers_[i] = const_cast<void*>(ends.input);
    if (plan.buffers[i].place == CudaBuffer::Place::Output) buffers_[i] = ends.output;
  }
}

CudaStepContext CudaSession::context_for(std::int64_t n, cudaStream_t stream) const {
  CudaStepContext context;
  context.n = std::max(n, cuda_engine_->plan().min_batch);
  context.stream = stream;
  context.buffers = buffers_.data();
  context.workspace = workspace_.data();
  context.session_state = session_state_.get();
  return context;
}

void CudaSession::enqueue_steps(std::int64_t n, cudaStream_t stream, bool programmatic) {
  const std::vector<CudaStep>& steps = cuda_engine_->plan().steps;
  CudaStepContext context = context_for(n, stream);
  for (const CudaStep& step : steps) {
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
  bind_ends(ends);
  enqueue_steps(n, stream, cuda_engine_->options().programmatic_launch);
  if (ends.copied_to != nullptr) {
    cuda_check(cudaMemcpyAsync(ends.copied_to, ends.output, output_bytes(n), cudaMemcpyDeviceToHost, stream),
               "copying the output to the host");
  }
}

void CudaSession::execute_on(std::int64_t n, const Ends& ends, cudaStream_t stream) {
  if (!cuda_engine_->options().cuda_graph) {
    const auto turn = take_turn();
    enqueue(n, ends, stream);
    return;
  }
  const auto found = std::find_if(captured_.begin(), captured_.end(),
                                  [&](const CapturedRun& run) { return run.n == n && run.ends == ends; });
  if (found != captured_.end()) {
    captured_.splice(captured_.begin(), captured_, found);
  } else {
    const auto turn = take_turn();
    auto graph = std::make_unique<GraphExec>(stream_.get(), [&] { enqueue(n, ends, stream_.get()); });
    captured_.push_front({n, ends, std::move(graph)});
    if (captured_.size() > kMaxCapturedRuns) captured_.pop_back();
  }
  captured_.front().graph->launch(stream);
}

void CudaSession::run_on_device(std::int64_t n, const void* input, DType input_type, float* output,
                                cudaStream_t stream) {
  const ExclusiveUse guard(*this);
  check_batch(n);
  if (input_type != engine().input().dtype) {
    throw Error(ErrorCode::invalid_argument, "run_on_device",
                "the engine takes " + std::string(to_string(engine().input().dtype)) + ", got " +
                    std::string(to_string(input_type)),
                "see EngineOptions::picture_input");
  }
  select_device(cuda_engine_->options().device);
  if (n >= cuda_engine_->plan().min_batch) {
    execute_on(n, {input, output, nullptr, nullptr}, stream);
    return;
  }
  // The plan touches more pictures than the caller's buffers hold.
  cuda_check(cudaMemcpyAsync(input_.data(), input, input_bytes(n), cudaMemcpyDeviceToDevice, stream),
             "copying the input");
  execute_on(n, own_ends(), stream);
  cuda_check(cudaMemcpyAsync(output, output_.data(), output_bytes(n), cudaMemcpyDeviceToDevice, stream),
             "copying the output");
}

std::size_t CudaSession::input_bytes(std::int64_t n) const { return bytes_of(n, engine().input()); }

std::size_t CudaSession::output_bytes(std::int64_t n) const { return bytes_of(n, engine().output()); }

void CudaSession::do_set_input(std::span<const std::byte> input, std::int64_t) {
  select_device(cuda_engine_->options().device);
  cuda_check(cudaMemcpyAsync(input_.data(), input.data(), input.size(), cudaMemcpyHostToDevice, stream_.get()),
             "copying the input to the device");
  cuda_check(cudaStreamSynchronize(stream_.get()), "copying the input to the device");
}

void CudaSession::allocate_staging() {
  if (staged_input_.data() != nullptr) return;
  select_device(cuda_engine_->options().device);
  const std::int64_t max_batch = cuda_engine_->options().max_batch;
  PinnedBuffer input(static_cast<std::int64_t>(input_bytes(max_batch)), "staged inputs");
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

void CudaSession::do_enqueue_staged(std::int64_t n) {
  allocate_staging();
  select_device(cuda_engine_->options().device);
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
  execute_on(n, ends, stream_.get());
}

void CudaSession::do_execute(std::int64_t n) {
  select_device(cuda_engine_->options().device);
  execute_on(n, own_ends(), stream_.get());
}

void CudaSession::do_get_output(std::span<float> output, std::int64_t) {
  select_device(cuda_engine_->options().device);
  cuda_check(cudaMemcpyAsync(output.data(), output_.data(), output.size_bytes(), cudaMemcpyDeviceToHost, stream_.get()),
             "copying the output to the host");
  cuda_check(cudaStreamSynchronize(stream_.get()), "running the network");
}

void CudaSession::do_synchronize() {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  cudaError_t status = cudaErrorNotReady;
  while (status == cudaErrorNotReady && std::chrono::steady_clock::now() < end) status = cudaStreamQuery(stream_.get());
  if (status == cudaErrorNotReady) status = cudaStreamSynchronize(stream_.get());
  cuda_check(status, "running the network");
}

std::vector<double> CudaSession::do_time_executions(std::int64_t n, int iterations) {
  select_device(cuda_engine_->options().device);
  std::vector<Event> events(static_cast<std::size_t>(std::min(iterations, kTimingBurst)) + 1);
  std::vector<double> times;
  while (static_cast<int>(times.size()) < iterations) {
    const int burst = std::min(kTimingBurst, iterations - static_cast<int>(times.size()));
    // One run ahead, so that the first timed one does not wait for its own launch.
    execute_on(n, own_ends(), stream_.get());
    record(events[0], stream_.get());
    for (int i = 0; i < burst; ++i) {
      execute_on(n, own_ends(), stream_.get());
      record(events[static_cast<std::size_t>(i) + 1], stream_.get());
    }
    do_synchronize();
    for (std::size_t i = 0; i < static_cast<std::size_t>(burst); ++i) times.push_back(events[i + 1].since(events[i]));
  }
  return times;
}

void CudaSession::run_gated(const std::function<void()>& enqueue) {
  LaunchGate gate(stream_.get());
  {
    const auto turn = take_turn();
    enqueue();
  }
  gate.open();
  do_synchronize();
}

double CudaSession::profile_whole(std::int64_t n, const std::vector<Event>& events) {
  run_gated([&] {
    record(events.front(), stream_.get());
    enqueue_steps(n, stream_.get(), false);
    record(events.back(), stream_.get());
  });
  return events.back().since(events.front());
}

std::vector<double> CudaSession::profile_layers(std::int64_t n, const std::vector<Event>& events, bool ranges) {
  const std::vector<CudaStep>& steps = cuda_engine_->plan().steps;
  const CudaStepContext context = context_for(n, stream_.get());
  run_gated([&] {
    record(events.front(), stream_.get());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::optional<NvtxRange> range;
      if (ranges) range.emplace(steps[i].info.name);
      enqueue_step(steps[i], context);
      record(events[i + 1], stream_.get());
    }
  });
  std::vector<double> times;
  for (std::size_t i = 0; i < steps.size(); ++i) times.push_back(events[i + 1].since(events[i]));
  return times;
}

LayerTimes CudaSession::do_profile(std::int64_t n, int iterations) {
  select_device(cuda_engine_->options().device);
  const std::size_t steps = cuda_engine_->plan().steps.size();
  const std::vector<Event> events(std::max<std::size_t>(steps, 1) + 1);
  bind_ends(own_ends());
  // An event costs more than the interval between two of them: the next kernel's launch no longer overlaps the end of
  // the one before. So what events add is found by runs with and without, before those that count.
  std::vector<double> added;
  for (int i = 0; i < iterations; ++i) {
    const double whole = profile_whole(n, events);
    const std::vector<double> times = profile_layers(n, events, false);
    added.push_back(std::accumulate(times.begin(), times.end(), -whole));
  }
  LayerTimes result;
  result.boundary = std::max(0.0, median(added)) / static_cast<double>(std::max<std::size_t>(steps, 1));
  std::vector<double> wholes;
  std::vector<std::vector<double>> samples(steps);
  for (int i = 0; i < iterations; ++i) {
    wholes.push_back(profile_whole(n, events));
    const std::vector<double> times = profile_layers(n, events, true);
    for (std::size_t step = 0; step < steps; ++step) samples[step].push_back(times[step]);
  }
  for (const std::vector<double>& times : samples) {
    result.layers.push_back(std::max(0.0, median(times) - result.boundary));
  }
  result.whole = median(wholes);
  return result;
}

void CudaSession::do_execute_layer(std::int64_t n, std::size_t layer) {
  select_device(cuda_engine_->options().device);
  bind_ends(own_ends());
  const CudaStep& step = cuda_engine_->plan().steps[layer];
  const std::string what = "layer '" + step.info.name + "'";
  cuda_check(step.enqueue(context_for(n, stream_.get())), what);
  cuda_check(cudaStreamSynchronize(stream_.get()), what);
}

void CudaSession::do_get_layer_output(std::int64_t n, std::size_t layer, std::span<float> output) {
  select_device(cuda_engine_->options().device);
  const CudaStep& step = cuda_engine_->plan().steps[layer];
  const CudaStepResult& result = step.result;
  const Shape& shape = step.info.output;
  const auto size = static_cast<std::size_t>(size_of(result.dtype));
  const std::byte* source =
      static_cast<const std::byte*>(buffers_[static_cast<std::size_t>(result.buffer)]) + result.offset;
  std::vector<std::byte> stored(output.size() * size);
  const std::string what = "copying the output of layer '" + step.info.name + "'";
  if (result.pitch == 0) {
    cuda_check(cudaMemcpyAsync(stored.data(), source, stored.size(), cudaMemcpyDeviceToHost, stream_.get()), what);
  } else {
    const std::size_t pixel = static_cast<std::size_t>(shape[1]) * size;
    cuda_check(cudaMemcpy2DAsync(stored.data(), pixel, source, static_cast<std::size_t>(result.pitch) * size, pixel,
                                 stored.size() / pixel, cudaMemcpyDeviceToHost, stream_.get()),
               what);
  }
  cuda_check(cudaStreamSynchronize(stream_.get()), what);
  to_logical_floats(stored, {result.dtype, shape, result.layout}, n, output);
}

namespace {

void run_on_device(Session& session, std::int64_t n, const void* input, DType input_type, float* output,
                   cudaStream_t stream) {
  auto* cuda_session = dynamic_cast<CudaSession*>(&session);
  if (cuda_session == nullptr) {
    throw Error(ErrorCode::invalid_argument, "run_on_device", "the session does not belong to a GPU engine");
  }
  if (input == nullptr || output == nullptr) {
    throw Error(ErrorCode::invalid_argument, "run_on_device", "input and output must not be null");
  }
  cuda_session->run_on_device(n, input, input_type, output, stream);
}

}  // namespace

void run_on_device(Session& session, std::int64_t n, const float* input, float* output, cudaStream_t stream) {
  run_on_device(session, n, input, DType::F32, output, stream);
}

void run_on_device(Session& session, std::int64_t n, const std::uint8_t* pictures, float* output, cudaStream_t stream) {
  run_on_device(session, n, pictures, DType::U8, output, stream);
}

}  // namespace mobicuda
