#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

#include <mobicuda/types.h>

namespace mobicuda::stress {

/// The command line asks for something that makes no sense.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Which n a call has.
enum class Batches : std::uint8_t {
  Random,   ///< 1 to max_batch
  Eighths,  ///< multiples of an eighth of max_batch
  Whole,    ///< max_batch
};

/// How a thread calls its session.
enum class Calls : std::uint8_t {
  Staged,  ///< staged_input() or staged_pictures(), enqueue_staged(), synchronize()
  Host,    ///< run()
  Device,  ///< run_on_device(), on a stream of the thread
  Any,     ///< one of these, at random
};

/// An engine, and the threads that run sessions of it.
struct EngineSpec {
  std::string text;  ///< as given
  std::string implementation = "custom";
  std::string network = "mobilenet_v2";
  std::string model;            ///< an ONNX file, instead of the network
  std::int64_t resolution = 0;  ///< of the network, 0: its own
  Precision precision = Precision::Fp16;
  bool bytes = false;  ///< pictures in bytes instead of floats
  std::int64_t max_batch = 16;
  int sessions = 4;
  Batches batches = Batches::Random;
  Calls calls = Calls::Staged;
  std::int64_t renew = 0;   ///< runs between two sessions of a thread, on average; 0: one session for all
  std::int64_t reload = 0;  ///< sessions between two readings of the engine from its plan, on average; 0: none
  bool cuda_graph = true;
  bool programmatic_launch = true;
  std::map<std::string, std::string> kernel_variants;
};

/// Reads "key=value,key=value"; cpu has fp32 where nothing is said of the precision. Throws UsageError that names the
/// key or the value and what could stand there.
EngineSpec parse_engine_spec(const std::string& text);

/// One line a key, for --help.
std::string describe_engine_spec();

}  // namespace mobicuda::stress
