#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/export.h>
#include <mobicuda/graph.h>
#include <mobicuda/types.h>

namespace mobicuda {

enum class LogLevel : std::uint8_t { Info, Warning };

/// Receives what the library has to say; the library itself prints nothing. May be called from the
/// thread that calls into the library only.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

/// Pictures as decoders leave them: 8 bits a channel, 3 channels a pixel, row by row (HWC). The network reads
/// byte * scale + shift of each channel, in float, before its own padding. E.g. 1 / 127.5 and -1 for [-1, 1].
struct PictureInput {
  std::array<float, 3> scale{1.0F, 1.0F, 1.0F};
  std::array<float, 3> shift{};
};

/// How a GPU engine's staged runs (Session::run_staged) move data between host and device.
enum class HostTransfer : std::uint8_t {
  Auto,    ///< Copy for inputs, Direct for small outputs
  Copy,    ///< copies before the first and after the last kernel
  Direct,  ///< the first kernel reads the host's memory, the last one writes it
};

/// Whether kernels are compiled for a network's own shapes when an engine is made (custom engine).
enum class Specialise : std::uint8_t {
  Never,   ///< the library's own kernels
  Auto,    ///< where NVRTC is found; else the library's own kernels run, and a line of the log says so
  Always,  ///< compile() throws Error(device_unavailable) where a kernel is wanted and there is no NVRTC
};

/// How a network is compiled.
struct EngineOptions {
  Precision precision = Precision::Fp32;
  std::int64_t max_batch = 1;  ///< a session runs any n in 1..max_batch
  /// Custom engine: the batch sizes that have a plan of their own, rising, from 1 to max_batch, which always has one. A
  /// run of n images takes the kernels of the smallest one that is not below n; equal weights of several plans are
  /// held once. An empty list: the plan for max_batch only. Nothing: by rule every size up to 16 and 8 sizes between
  /// each two powers of two above it, by time (`timing_cache`) powers of two, in either case without those that would
  /// run what the next one runs.
  std::optional<std::vector<std::int64_t>> plan_batches;
  int threads = 0;                  ///< CPU engine: worker threads, 0 = one for each core
  int device = 0;                   ///< GPU engines: CUDA device index
  bool cuda_graph = true;           ///< GPU engines: replay a captured CUDA graph in run()
  bool programmatic_launch = true;  ///< custom engine: programmatic dependent launch where the GPU has it (sm_90+)
  bool guarded_arena = false;  ///< GPU engines: one allocation for each tensor, so that memory checkers see overruns
  /// Sessions take bytes instead of floats; Engine::input() is then U8 and NHWC. The network's input must be an image
  /// of 3 channels (compile() throws Error(unsupported) otherwise).
  std::optional<PictureInput> picture_input;
  HostTransfer host_transfer = HostTransfer::Auto;  ///< GPU engines
  /// Custom engine: kernel -> variant name, e.g. {"gemm", "mma_64x64x64"}; an Error(unsupported) names the layer whose
  /// shape that variant does not run. A variant of a kernel of several layers fuses what it runs. "block" takes a form
  /// of inverted residual blocks ("layers", "expand_depthwise", "fused"); so is asked for the other kernels of several
  /// layers, e.g. "head" (last pointwise convolution and pool), with "layers" or "fused", used wherever their kernels
  /// run; "pointwise" takes "gemm" or "conv2d". kernels/README.md has all of them, and what compile() throws on a name
  /// that does not exist lists them. Empty: the planner chooses.
  std::map<std::string, std::string> kernel_variants;
  /// Custom engine: a file of measured times. With one, what has no name in kernel_variants is chosen by time: times
  /// that the file lacks for this GPU, version and shape are measured while compiling, and added. So are times of the
  /// network, for layers whose fastest kernels are too close to tell apart by themselves; memory for a second engine is
  /// used meanwhile, and where there is none a warning says so. Empty: by rule.
  std::filesystem::path timing_cache;
  bool require_timing_cache = false;  ///< a time that the file lacks is an Error, and nothing is measured
  /// Custom engine: kernels for shapes that the library has none of its own for are compiled on all cores with NVRTC,
  /// the CUDA Toolkit's compiler for run time, and kept on disk and in plan files (docs/specialise.md).
  Specialise specialise = Specialise::Auto;
  /// Folder where compiled kernels are kept, for all processes and users that it is shared with: they run what lies
  /// there. At most 256 MB; what was not used for the longest time goes. Nothing: mobicuda/code in the user's cache
  /// folder. Empty: none. A folder that cannot be written keeps nothing, and a warning says so.
  std::optional<std::filesystem::path> code_cache;
  /// The file of NVRTC, of the CUDA version that the library was built with. Empty: libnvrtc.so as the dynamic linker
  /// finds it, or that of the toolkit that built the library.
  std::filesystem::path nvrtc_library;
  /// The most bytes that the engine and one of its sessions may hold (MemoryReport::total()): create_session() throws
  /// Error(out_of_memory) before it allocates more. Staged memory, a second input and output, comes on top at the first
  /// call that asks for it. 0: no limit.
  std::int64_t max_memory_bytes = 0;
  LogCallback log;  ///< may be empty
};

/// One step of a compiled network.
struct LayerInfo {
  std::string name;                   ///< source node names, "a+b+c" where fused
  std::string kernel;                 ///< what runs it, e.g. "gemm/mma_64x64x64"
  Shape output;                       ///< logical, per image
  std::int64_t flops = 0;             ///< per image
  std::int64_t activation_bytes = 0;  ///< read and written, per image
  std::int64_t weight_bytes = 0;      ///< read once for a batch
  std::string reason{};               ///< why this kernel; empty where there was no choice
  /// Name of the model's tensor that the layer finishes: what Session::get_layer_output() gives. Empty for a layer that
  /// only converts, or leaves a part of its work to the next one.
  std::string value{};
};

/// Bytes that an engine and one of its sessions hold (device memory for GPU engines, host memory for CPU).
struct MemoryReport {
  std::int64_t weight_bytes = 0;     ///< packed weights, shared by all sessions of an engine
  std::int64_t arena_bytes = 0;      ///< activations of one session, planned statically
  std::int64_t workspace_bytes = 0;  ///< scratch of one session
  std::int64_t io_bytes = 0;         ///< input and output buffers of one session

  std::int64_t total() const noexcept { return weight_bytes + arena_bytes + workspace_bytes + io_bytes; }
};

/// How Session::profile() runs the layers. A CPU engine runs one after the other in any case.
enum class ProfileMode : std::uint8_t {
  /// As execute() does: layers overlap. A layer's time is what a run that ends with it takes longer than one that ends
  /// before it, so what runs wholly beside its neighbours takes nothing, give or take the measurement's noise.
  AsRun,
  /// Each layer by itself, without CUDA graph and programmatic launch, marked with an NVTX range: the sum exceeds what
  /// execute() takes.
  Serialized,
};

/// What Session::profile() measured, in milliseconds: medians.
struct LayerTimes {
  std::vector<double> layers;  ///< in the order of Engine::layers(n)
  double whole = 0;            ///< a run of the same layers, in the same manner, without a clock between them
  double boundary = 0;         ///< what a reading of the clock adds, and was taken off: by AsRun the time of no layer
};

class Engine;
struct SavedEngine;  // saved_engine.h

/// Runs one engine; owns its activations and stream. Not thread-safe: one session per thread. A call
/// on a session that another thread is using throws Error(invalid_argument) rather than corrupting it.
///
/// Inputs are float32, whatever the engine's precision, or bytes (EngineOptions::picture_input); outputs are float32;
/// n images one after the other in the layouts of Engine::input() and Engine::output(). A call with the other type of
/// input throws Error(invalid_argument).
class MOBICUDA_API Session {
 public:
  virtual ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Host to host, blocking. n is input.size() / elements of one image. Throws
  /// Error(invalid_argument) when the sizes do not fit each other or max_batch.
  void run(std::span<const float> input, std::span<float> output);
  void run(std::span<const std::uint8_t> pictures, std::span<float> output);

  /// The three parts of run(), for callers that keep the input on the device or overlap work. A call that would read
  /// what no call has written throws Error(invalid_argument), which says what to call first.
  ///
  /// The input buffer keeps its images for any number of executions. Those of a new session are max_batch images of
  /// zeros; set_input() and run() replace them all by theirs, so that execute(), time_executions(), profile() and
  /// execute_layer() then take as many images as these gave, or fewer.
  void set_input(std::span<const float> input);  ///< blocking copy into the session's input buffer
  void set_input(std::span<const std::uint8_t> pictures);
  void execute(std::int64_t n);  ///< enqueues one inference; GPU engines do not wait
  /// Waits, then copies the outputs of the first n images of the last execution: by execute(), run(),
  /// time_executions(), profile(), or layer by layer up to the last one. They stay until the next execution. A staged
  /// run's outputs are in staged_output(), and after it there are none here; run_on_device() writes where it is told.
  void get_output(std::span<float> output);
  void synchronize();  ///< waits for what was enqueued

  /// Staged runs are the fast way from host to host: the caller fills the session's own input memory (page-locked for
  /// GPU engines), runs, and reads its output memory. On a GPU transfers and kernels are one CUDA graph. The memory is
  /// for max_batch images, allocated at the first call, and stays in place; the spans are of its first n images. It
  /// must be left alone between enqueue_staged() and synchronize(). With several sessions, each one's transfers overlap
  /// the others' kernels.
  std::span<float> staged_input(std::int64_t n);
  std::span<std::uint8_t> staged_pictures(std::int64_t n);
  std::span<const float> staged_output(std::int64_t n);
  void enqueue_staged(std::int64_t n);  ///< GPU engines do not wait
  void run_staged(std::int64_t n);      ///< enqueue_staged() and synchronize()

  /// Makes ready for runs of these numbers of images, in any order, so that none of them takes longer because it is
  /// the first: a GPU engine captures what run(), execute() and time_executions() replay and, once the staged memory
  /// was asked for (staged_input(), staged_pictures() or staged_output()), staged runs. Runs of other sizes, and those
  /// of run_on_device(), are still captured when they are met first. A session keeps at most 128 captured runs; sizes
  /// that were captured before and not asked for here may have to give way. Waits until it is done, computes nothing,
  /// and leaves inputs and outputs as they are. Engines that capture nothing do nothing. Throws Error(invalid_argument)
  /// on a size that the engine does not run, and on more runs than a session keeps.
  void warm_up(std::span<const std::int64_t> batches);

  /// `iterations` times of a run of n images on the data already in the input buffer, in milliseconds: CUDA-event
  /// time on the GPU without transfers, wall time on the CPU. Each is the mean of `runs` in a row: on a GPU a clock
  /// that is read after every run adds about a microsecond to each.
  std::vector<double> time_executions(std::int64_t n, int iterations, int runs = 1);

  /// Milliseconds of each layer over `iterations` runs of n images on the data already in the input buffer. AsRun
  /// takes on a GPU two runs for each layer and iteration, the network's and that of its first layers, and while it
  /// measures a CUDA graph for each number of first layers.
  LayerTimes profile(std::int64_t n, int iterations, ProfileMode mode = ProfileMode::AsRun);

  /// Runs one layer of Engine::layers(n) on the data already in the input buffer, without CUDA graph and programmatic
  /// launch, and waits for it. For looking at what layers compute: layer 0 first, then each next one with the same n,
  /// and nothing but get_layer_output() in between; anything else throws Error(invalid_argument).
  void execute_layer(std::int64_t n, std::size_t layer);

  /// What the layer just executed computed: n images of LayerInfo::output as floats in the order of that shape
  /// (NCHW), whatever precision and layout the engine stores. Throws Error(invalid_argument) when LayerInfo::value is
  /// empty.
  void get_layer_output(std::span<float> output);

 protected:
  /// Whether a call ends a run layer by layer.
  enum class Use : std::uint8_t { Whole, LayerByLayer };

  /// Marks the session as busy for its lifetime. Throws Error(invalid_argument) when it is busy already.
  class ExclusiveUse {
   public:
    explicit ExclusiveUse(Session& session, Use use = Use::Whole);
    ~ExclusiveUse() { session_.in_use_.store(false); }
    ExclusiveUse(const ExclusiveUse&) = delete;
    ExclusiveUse& operator=(const ExclusiveUse&) = delete;

   private:
    Session& session_;
  };

  explicit Session(std::shared_ptr<const Engine> engine);
  const Engine& engine() const noexcept { return *engine_; }
  /// Throws Error(invalid_argument) unless 1 <= n <= max_batch.
  void check_batch(std::int64_t n) const;

 private:
  virtual void do_set_input(std::span<const std::byte> input, std::int64_t n) = 0;
  virtual void do_execute(std::int64_t n) = 0;
  virtual void do_get_output(std::span<float> output, std::int64_t n) = 0;
  virtual void do_synchronize() = 0;
  virtual std::byte* do_staged_input() = 0;  ///< for max_batch images
  virtual float* do_staged_output() = 0;
  virtual void do_enqueue_staged(std::int64_t n) = 0;
  /// Sizes that differ. An engine that captures nothing has nothing to do.
  virtual void do_warm_up(std::span<const std::int64_t> batches);
  virtual std::vector<double> do_time_executions(std::int64_t n, int iterations, int runs) = 0;
  virtual LayerTimes do_profile(std::int64_t n, int iterations, ProfileMode mode) = 0;
  virtual void do_execute_layer(std::int64_t n, std::size_t layer) = 0;
  virtual void do_get_layer_output(std::int64_t n, std::size_t layer, std::span<float> output) = 0;

  /// What ran last, and so what the output buffer holds: outputs after Whole only.
  enum class LastRun : std::uint8_t { None, Failed, Layers, Staged, Whole };

  template <class T>
  void run_on(std::span<const T> input, std::span<float> output);
  void fill_input(std::span<const std::byte> input, std::int64_t n);
  /// Throws Error(invalid_argument) unless the engine runs n images and the input buffer holds so many.
  void check_inputs(std::int64_t n) const;
  /// Throws Error(invalid_argument) unless the output buffer holds the outputs of n images.
  void check_outputs(std::int64_t n) const;
  /// Before and after the network runs on n images of the input buffer.
  void begin_execution(std::int64_t n);
  void end_execution(std::int64_t n);
  template <class T>
  std::span<T> staged(std::int64_t n);
  /// Throws Error(invalid_argument) unless the engine takes inputs of T.
  template <class T>
  void require_input() const;
  std::int64_t batch_of(std::size_t elements, const Shape& picture, std::string_view what) const;

  std::shared_ptr<const Engine> engine_;
  std::atomic<bool> in_use_{false};
  std::size_t next_layer_ = 0;     ///< of a run layer by layer
  std::int64_t layers_batch_ = 0;  ///< its n
  std::int64_t input_pictures_;    ///< in the input buffer
  LastRun last_run_ = LastRun::None;
  std::int64_t output_pictures_ = 0;  ///< of the last run, where that was Whole
};

/// A compiled network with its weights in place: immutable, shareable between threads.
class MOBICUDA_API Engine : public std::enable_shared_from_this<Engine> {
 public:
  virtual ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  virtual std::string_view backend() const noexcept = 0;  ///< "custom", "cudnn" or "cpu"
  const EngineOptions& options() const noexcept { return options_; }
  const TensorDesc& input() const noexcept { return input_; }    ///< one image (N = 1), F32 or U8
  const TensorDesc& output() const noexcept { return output_; }  ///< one image (N = 1)
  /// What a run of n images runs. Throws Error(invalid_argument) unless n is 1 to max_batch.
  std::span<const LayerInfo> layers(std::int64_t n) const;
  /// What a run of max_batch images runs.
  std::span<const LayerInfo> layers() const noexcept { return do_layers(options_.max_batch); }
  /// Exact, and known before a session allocates anything.
  virtual MemoryReport memory() const noexcept = 0;
  /// Milliseconds that the copy of the weights to the device took; 0 where there was none.
  virtual double upload_ms() const noexcept { return 0; }
  /// What Backend::restore() makes the same engine of; plan_file::save() stores it. Throws Error(unsupported) where an
  /// implementation has no such form.
  virtual SavedEngine saved() const;
  /// Allocates a session's memory. The session keeps the engine alive. Thread-safe. Throws Error(out_of_memory) where
  /// memory is not to be had, or more than EngineOptions::max_memory_bytes.
  std::unique_ptr<Session> create_session() const;

 protected:
  Engine(EngineOptions options, TensorDesc input, TensorDesc output);
  /// Throws Error(invalid_argument) unless 1 <= n <= max_batch.
  void check_batch(std::int64_t n) const;

 private:
  friend class Session;
  virtual std::span<const LayerInfo> do_layers(std::int64_t n) const noexcept = 0;
  virtual std::unique_ptr<Session> do_create_session() const = 0;

  EngineOptions options_;
  TensorDesc input_;
  TensorDesc output_;
};

/// One implementation of all operations. Stateless and thread-safe.
class MOBICUDA_API Backend {
 public:
  virtual ~Backend();

  virtual std::string_view name() const noexcept = 0;
  /// Why this backend cannot run a node of an optimised graph at that precision; nothing when it can.
  virtual std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                                     const EngineOptions& options) const = 0;
  /// Optimises the graph, plans memory, packs and uploads weights. Throws Error(unsupported) naming
  /// every node that the backend lacks, Error(device_unavailable) with the reason, Error(out_of_memory).
  virtual std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const = 0;
  /// The engine that was saved, on a machine like that where it was compiled. Precision, max_batch and picture_input of
  /// `options` must be those it was compiled with; threads, device and how it runs are free. Throws Error(unsupported)
  /// on another implementation's engine or another processor, Error(invalid_argument) on options it was not compiled
  /// for, Error(invalid_model) when it contradicts itself.
  virtual std::shared_ptr<const Engine> restore(const SavedEngine& saved, const EngineOptions& options) const;

 protected:
  Backend() = default;
};

/// Throws Error(unsupported) that lists every node of `graph` for which `backend` has a reason.
MOBICUDA_API void require_supported(const Backend& backend, const Graph& graph, const EngineOptions& options);

/// Throws Error(invalid_argument) on options no engine takes (max_batch < 1, threads < 0, ...).
MOBICUDA_API void check_options(const EngineOptions& options);

/// What an engine of that graph takes: the graph's input, or images in bytes (EngineOptions::picture_input). Throws
/// Error(unsupported) when the network does not read images of 3 channels.
MOBICUDA_API TensorDesc input_desc(const Graph& graph, const EngineOptions& options);

}  // namespace mobicuda
