#include "serving/load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

namespace mobicuda::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr const char* kRegister = "/inference.GRPCInferenceService/SystemSharedMemoryRegister";
constexpr const char* kUnregister = "/inference.GRPCInferenceService/SystemSharedMemoryUnregister";
constexpr const char* kCudaRegister = "/inference.GRPCInferenceService/CudaSharedMemoryRegister";
constexpr const char* kCudaUnregister = "/inference.GRPCInferenceService/CudaSharedMemoryUnregister";
constexpr const char* kMetadata = "/inference.GRPCInferenceService/ModelMetadata";

void place(google::protobuf::Map<std::string, inference::InferParameter>& parameters, const std::string& region,
           std::size_t offset, std::size_t bytes) {
  parameters["shared_memory_region"].set_string_param(region);
  parameters["shared_memory_offset"].set_int64_param(static_cast<std::int64_t>(offset));
  parameters["shared_memory_byte_size"].set_int64_param(static_cast<std::int64_t>(bytes));
}

}  // namespace

// One thread's share of the load: connections and requests of its own, so that threads share nothing.
class Load::Worker {
 public:
  Worker(const Load& load, std::vector<Connection*> connections, std::vector<std::size_t> slots, double rate,
         Clock::time_point count_from, Clock::time_point end)
      : load_(load), rate_(rate), count_from_(count_from), end_(end) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      Slot& slot = slots_.emplace_back();
      slot.number = slots[i];
      slot.set = slots[i] % load.inputs_.sets.size();
      slot.stub = &connections[i % connections.size()]->stub();
      slot.request = packed(load.request(slot.set, slot.number, load.options_.memory));
    }
  }

  // Waits for everything that was sent.
  void run() {
    try {
      rate_ > 0 ? open_loop() : closed_loop();
    } catch (...) {
      failure_ = std::current_exception();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool done = false;
    while (queue_.Next(&tag, &done)) {
    }
  }

  const LoadResult& result() const {
    if (failure_) std::rethrow_exception(failure_);
    return result_;
  }

 private:
  struct Slot {
    std::size_t number = 0;
    std::size_t set = 0;
    grpc::GenericStub* stub = nullptr;
    grpc::ByteBuffer request;
    grpc::ByteBuffer response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientContext> context;  // one for each call
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    Clock::time_point start;
  };

  void closed_loop() {
    for (Slot& slot : slots_) send(slot, Clock::now());
    void* tag = nullptr;
    bool done = false;
    for (std::size_t under_way = slots_.size(); under_way > 0 && queue_.Next(&tag, &done);) {
      Slot& slot = *static_cast<Slot*>(tag);
      take(slot);
      if (const auto now = Clock::now(); now < end_) {
        send(slot, now);
      } else {
        --under_way;
      }
    }
  }

  // A request's time begins when it is due: a generator that is late does not make a server look fast.
  void open_loop() {
    std::vector<Slot*> free;
    for (Slot& slot : slots_) free.push_back(&slot);
    const auto begin = Clock::now();
    std::int64_t due_count = 0;
    const auto due = [&] {
      return begin + std::chrono::duration_cast<Clock::duration>(Seconds(static_cast<double>(due_count) / rate_));
    };
    while (true) {
      const auto now = Clock::now();
      for (; now < end_ && due() <= now; ++due_count) {
        if (!free.empty()) {
          send(*free.back(), due());
          free.pop_back();
        } else {
          result_.not_sent += due() >= count_from_;
        }
      }
      if (now >= end_ && free.size() == slots_.size()) return;
      void* tag = nullptr;
      bool done = false;
      // Without sleep as long as it sends: gRPC's timers are milliseconds late.
      const auto until =
          now < end_ ? std::chrono::system_clock::now() : std::chrono::system_clock::now() + std::chrono::seconds(1);
      if (queue_.AsyncNext(&tag, &done, until) == grpc::CompletionQueue::GOT_EVENT) {
        free.push_back(static_cast<Slot*>(tag));
        take(*free.back());
      }
    }
  }

  void send(Slot& slot, Clock::time_point start) {
    slot.context = std::make_unique<grpc::ClientContext>();
    slot.context->set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(Seconds(load_.options_.timeout_seconds)));
    slot.start = start;
    slot.reader = slot.stub->PrepareUnaryCall(slot.context.get(), kInfer, slot.request, &queue_);
    slot.reader->StartCall();
    slot.reader->Finish(&slot.response, &slot.status, &slot);
  }

  void take(Slot& slot) {
    const auto now = Clock::now();
    const bool counts = slot.start >= count_from_ && slot.start < end_;
    if (counts) {
      ++result_.statuses[name_of(slot.status.error_code())];
      result_.seconds = Seconds(now - count_from_).count();
    }
    if (!slot.status.ok()) {
      result_.messages.try_emplace(name_of(slot.status.error_code()), slot.status.error_message());
      return;
    }
    const double difference =
        load_.answers_->difference(slot.set, load_.output(slot.number, slot.response, load_.options_.memory));
    slot.response.Clear();
    if (load_.answers_->wrong(difference)) {
      ++result_.wrong;
    } else {
      result_.difference = std::max(result_.difference, difference);
    }
    if (counts) result_.latencies_us.push_back(1e6 * Seconds(now - slot.start).count());
  }

  const Load& load_;
  double rate_;
  Clock::time_point count_from_;
  Clock::time_point end_;
  grpc::CompletionQueue queue_;
  std::vector<Slot> slots_;
  LoadResult result_;
  std::exception_ptr failure_;
};

Load::Region::Region(Connection& at, const std::string& name, std::size_t bytes) : connection(at), memory(name, bytes) {
  inference::SystemSharedMemoryRegisterRequest request;
  request.set_name(memory.key());
  request.set_key(memory.key());
  request.set_byte_size(bytes);
  inference::Empty nothing;
  connection.call(kRegister, request, nothing);
}

Load::Region::~Region() {
  inference::SystemSharedMemoryUnregisterRequest request;
  request.set_name(memory.key());
  static_cast<void>(connection.call(kUnregister, request));  // a server that ended knows nothing any more
}

Load::CudaRegion::CudaRegion(Connection& at, int device, const std::vector<std::string>& sets)
    : connection(at), memory(device, sets), name(SharedMemory::unused_name("gpu" + std::to_string(device))) {
  inference::CudaSharedMemoryRegisterRequest request;
  request.set_name(name);
  request.set_raw_handle(memory.handle());
  request.set_device_id(device);
  request.set_byte_size(memory.bytes());
  inference::Empty nothing;
  connection.call(kCudaRegister, request, nothing);
}

Load::CudaRegion::~CudaRegion() {
  inference::CudaSharedMemoryUnregisterRequest request;
  request.set_name(name);
  static_cast<void>(connection.call(kCudaUnregister, request));
}

Load::Load(LoadOptions options) : options_(std::move(options)) {
  for (int i = 0; i < options_.clients; ++i) connections_.push_back(std::make_unique<Connection>(options_.url, i));
  Connection& first = *connections_.front();
  inference::ModelMetadataRequest of_model;
  of_model.set_name(options_.model);
  inference::ModelMetadataResponse model;
  first.call(kMetadata, of_model, model);
  inputs_ = make_inputs(model, options_.sets, options_.images, options_.seed, options_.files);
  if (model.outputs_size() == 0 || model.outputs(0).datatype() != "FP32") {
    throw std::invalid_argument("the model's first output is not FP32");
  }
  output_name_ = model.outputs(0).name();
  std::size_t classes = 1;
  for (int i = 1; i < model.outputs(0).shape_size(); ++i)
    classes *= static_cast<std::size_t>(model.outputs(0).shape(i));
  output_bytes_ = static_cast<std::size_t>(options_.images) * classes * sizeof(float);

  switch (options_.memory) {
    case TensorMemory::Message:
      break;
    case TensorMemory::System: {
      std::size_t bytes = 0;
      for (const std::string& set : inputs_.sets) bytes += set.size();
      input_region_.emplace(first, "input", bytes);
      std::byte* to = input_region_->memory.bytes().data();
      for (const std::string& set : inputs_.sets) {
        std::memcpy(to, set.data(), set.size());
        to += set.size();
      }
      break;
    }
    case TensorMemory::Cuda:
      for (int gpu = 0; gpu < options_.gpus; ++gpu) {
        cuda_regions_.push_back(std::make_unique<CudaRegion>(first, gpu, inputs_.sets));
      }
      break;
  }
  if (options_.memory != TensorMemory::Message) output_region_.emplace(first, "output", slots() * output_bytes_);
  std::vector<std::vector<float>> expected;
  for (std::size_t set = 0; set < inputs_.sets.size(); ++set) {
    inference::ModelInferResponse response;
    first.call(kInfer, request(set, 0, TensorMemory::Message), response);
    expected.push_back(output(0, packed(response), TensorMemory::Message));
  }
  answers_.emplace(std::move(expected), classes);
  for (const auto& connection : connections_) connection->wait_until_connected();
}

Load::~Load() = default;

std::size_t Load::slots() const {
  return static_cast<std::size_t>(options_.rate > 0 ? options_.outstanding : options_.clients);
}

inference::ModelInferRequest Load::request(std::size_t set, std::size_t slot, TensorMemory memory) const {
  inference::ModelInferRequest request;
  request.set_model_name(options_.model);
  inference::InferInputTensor& input = *request.add_inputs();
  input.set_name(inputs_.name);
  input.set_datatype(inputs_.datatype);
  input.mutable_shape()->Add(inputs_.shape.begin(), inputs_.shape.end());
  inference::InferRequestedOutputTensor& output = *request.add_outputs();
  output.set_name(output_name_);
  if (memory == TensorMemory::Message) {
    request.add_raw_input_contents(inputs_.sets[set]);
    return request;
  }
  std::size_t offset = 0;
  for (std::size_t i = 0; i < set; ++i) offset += inputs_.sets[i].size();
  const std::string& region =
      memory == TensorMemory::Cuda ? cuda_regions_[slot % cuda_regions_.size()]->name : input_region_->memory.key();
  place(*input.mutable_parameters(), region, offset, inputs_.sets[set].size());
  place(*output.mutable_parameters(), output_region_->memory.key(), slot * output_bytes_, output_bytes_);
  return request;
}

std::vector<float> Load::output(std::size_t slot, const grpc::ByteBuffer& response, TensorMemory memory) const {
  std::vector<float> numbers(output_bytes_ / sizeof(float));
  if (memory != TensorMemory::Message) {
    std::memcpy(numbers.data(), output_region_->memory.bytes().data() + (slot * output_bytes_), output_bytes_);
    return numbers;
  }
  inference::ModelInferResponse message;
  unpack(response, message);
  if (message.raw_output_contents_size() != 1 || message.raw_output_contents(0).size() != output_bytes_) {
    throw ServerError("the server's answer has not the bytes of one output");
  }
  std::memcpy(numbers.data(), message.raw_output_contents(0).data(), output_bytes_);
  return numbers;
}

LoadResult Load::run() {
  const auto threads = static_cast<std::size_t>(std::min<std::int64_t>(options_.threads, options_.clients));
  const auto count_from = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(options_.warm_up_seconds));
  const auto end = count_from + std::chrono::duration_cast<Clock::duration>(Seconds(options_.seconds));
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    std::vector<Connection*> connections;
    for (std::size_t i = thread; i < connections_.size(); i += threads) connections.push_back(connections_[i].get());
    std::vector<std::size_t> own;
    for (std::size_t i = thread; i < slots(); i += threads) own.push_back(i);
    workers.push_back(std::make_unique<Worker>(*this, std::move(connections), std::move(own),
                                               options_.rate / static_cast<double>(threads), count_from, end));
  }
  {
    std::vector<std::jthread> running;
    for (const auto& worker : workers) running.emplace_back([&worker] { worker->run(); });
  }
  LoadResult result;
  for (const auto& worker : workers) {
    const LoadResult& its = worker->result();
    result.seconds = std::max(result.seconds, its.seconds);
    result.not_sent += its.not_sent;
    result.wrong += its.wrong;
    result.difference = std::max(result.difference, its.difference);
    result.latencies_us.insert(result.latencies_us.end(), its.latencies_us.begin(), its.latencies_us.end());
    for (const auto& [status, count] : its.statuses) result.statuses[status] += count;
    result.messages.insert(its.messages.begin(), its.messages.end());
  }
  std::ranges::sort(result.latencies_us);
  return result;
}

}  // namespace mobicuda::bench
