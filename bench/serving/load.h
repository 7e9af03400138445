#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serving/answers.h"
#include "serving/connection.h"
#include "serving/cuda_memory.h"
#include "serving/inputs.h"
#include "serving/shared_memory.h"

namespace mobicuda::bench {

/// Where the tensors of requests lie.
enum class TensorMemory : std::uint8_t {
  Message,  ///< inputs and outputs in the messages
  System,   ///< inputs and outputs in system shared memory
  Cuda,     ///< inputs in CUDA shared memory, outputs in system shared memory
};

struct LoadOptions {
  std::string url;
  std::string model;
  int images = 1;                            ///< of a request
  int sets = 16;                             ///< of images, that requests carry in turn
  unsigned seed = 1;                         ///< of the images
  std::vector<std::filesystem::path> files;  ///< of a model that takes encoded pictures
  TensorMemory memory = TensorMemory::System;
  int gpus = 1;                ///< with TensorMemory::Cuda: requests have their inputs on each in turn
  int clients = 1;             ///< connections; in the closed loop each has one request under way
  int threads = 1;             ///< that drive them
  double rate = 0;             ///< requests a second, sent whether answers come or not; 0: the closed loop
  int outstanding = 2048;      ///< with a rate: most requests under way
  double warm_up_seconds = 1;  ///< not counted
  double seconds = 5;
  double timeout_seconds = 10;  ///< of a request
};

/// What came back while it counted.
struct LoadResult {
  double seconds = 0;
  std::int64_t not_sent = 0;                     ///< with a rate: that were due when the most were under way
  std::int64_t wrong = 0;                        ///< answers that are not the image's own
  double difference = 0;                         ///< the largest of those that are
  std::vector<double> latencies_us;              ///< of requests that were answered, rising
  std::map<std::string, std::int64_t> statuses;  ///< requests by gRPC's code
  std::map<std::string, std::string> messages;   ///< the first text of each code but OK
};

/// Requests for a model on one server, with their memory, which the server knows as long as the object lives.
class Load {
 public:
  /// Asks for each set of images once, alone and in the message. Throws ServerError, std::system_error,
  /// std::invalid_argument.
  explicit Load(LoadOptions options);
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  /// Loads the server for warm_up_seconds and seconds. Throws ServerError on answers that cannot be read.
  LoadResult run();

  const Answers& answers() const noexcept { return *answers_; }

 private:
  class Worker;
  /// A piece of shared memory that the server is told of, and made to forget.
  struct Region {
    Region(Connection& connection, const std::string& name, std::size_t bytes);
    ~Region();
    Connection& connection;
    SharedMemory memory;
  };

  /// A piece of a GPU's memory, likewise.
  struct CudaRegion {
    CudaRegion(Connection& connection, int device, const std::vector<std::string>& sets);
    ~CudaRegion();
    Connection& connection;
    CudaMemory memory;
    std::string name;
  };

  inference::ModelInferRequest request(std::size_t set, std::size_t slot, TensorMemory memory) const;
  /// What a request was answered with.
  std::vector<float> output(std::size_t slot, const grpc::ByteBuffer& response, TensorMemory memory) const;
  std::size_t slots() const;

  LoadOptions options_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Inputs inputs_;
  std::string output_name_;
  std::size_t output_bytes_ = 0;  // of a request
  std::optional<Region> input_region_;
  std::vector<std::unique_ptr<CudaRegion>> cuda_regions_;  // one for each GPU
  std::optional<Region> output_region_;
  std::optional<Answers> answers_;
};

}  // namespace mobicuda::bench
