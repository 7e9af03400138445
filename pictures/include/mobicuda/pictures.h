#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/export.h>
#include <mobicuda/picture_preparation.h>
#include <mobicuda/picture_source.h>
#include <mobicuda/picture_stream.h>

/// From encoded pictures to labels (libmobicuda_pictures, docs/pictures.md):
///
///   mobicuda::pictures::Classifier classifier(engine);
///   for (const auto& result : classifier.classify(PictureSource::folder("photos"))) use(result.name, result.best);
namespace mobicuda::pictures {

/// What turned a picture's bytes into pixels.
enum class Decoder : std::uint8_t {
  None,         ///< nothing: it failed
  Cpu,          ///< libjpeg-turbo or stb_image
  NvjpegUnits,  ///< the GPU's JPEG units, in batches
  NvjpegSms,    ///< nvJPEG on the GPU's multiprocessors, with the host's help
};

MOBICUDA_API std::string_view to_string(Decoder decoder) noexcept;  ///< "none", "cpu", "nvjpeg units", "nvjpeg sms"

/// Where JPEG pictures are decoded. PNG, BMP and PNM, and JPEG that is progressive, CMYK, of 12 bits or damaged, are
/// the CPU's in any case.
enum class DecodeOn : std::uint8_t {
  Auto,  ///< as Gpu where there is nvJPEG; else on the CPU, and a line of the log says so
  /// On the engine's GPU by nvJPEG: by its JPEG units where it has some, else by its multiprocessors, for which the
  /// reading threads read the codes. The classifier's constructor throws Error(device_unavailable) where there is no
  /// nvJPEG; likewise with the two that follow.
  Gpu,
  GpuUnits,  ///< by the JPEG units; where there are none the constructor throws, too
  /// By the multiprocessors. Of batches of 51 pictures and more nvJPEG reads the codes there too, which takes half of
  /// the host's time that the units take, and gives more pictures a second in batches of 512 and more; in smaller
  /// batches the reading threads read them.
  GpuSms,
  Cpu,
};

/// Who converts the colours of JPEG pictures that the GPU decodes.
enum class Colours : std::uint8_t {
  Nvjpeg,  ///< nvJPEG, where its pixels are a few levels from libjpeg-turbo's at most, which is tried; else as Exact
  Exact,   ///< the library, as libjpeg-turbo does: the CPU's pixels but for the rounding of the DCT; takes more of the
           ///< host
};

struct ClassScore {
  std::size_t index = 0;  ///< of the class
  float score = 0;        ///< the network's output for it, as it is
};

/// What became of one picture of a source.
struct Result {
  std::size_t index = 0;  ///< in the source, from 0
  std::string name;       ///< the source's, as it is there: printable() makes it fit for a terminal
  /// ClassifierOptions::top classes of the highest scores, best first, the lower index first among equals; NaN is below
  /// all numbers. Empty where the picture failed.
  std::vector<ClassScore> best;
  std::vector<float> outputs;  ///< of all classes, with ClassifierOptions::outputs
  std::string failure;         ///< why the picture was not classified; empty where it was
  Decoder decoder = Decoder::None;

  bool ok() const noexcept { return failure.empty(); }
};

/// How far a run is.
struct Progress {
  std::size_t done = 0;    ///< results that were handed out
  std::size_t failed = 0;  ///< of these, pictures that failed
};

struct ClassifierOptions {
  /// Of engines that take floats; those with EngineOptions::picture_input normalise bytes themselves.
  Normalization normalization = Normalization::Torch;
  std::optional<int> resize_to;  ///< length of the short side before the crop; nothing: Preprocessing::for_input()
  DecodeOptions decode;
  DecodeOn decode_on = DecodeOn::Auto;
  Colours colours = Colours::Nvjpeg;
  int top = 5;           ///< classes of a result, at least 1
  bool outputs = false;  ///< results have the scores of all classes too
  /// Pictures that are decoded and classified together, 1 to 1024. The CPU's engines classify as many batches at a time
  /// as EngineOptions::threads leave cores for.
  int batch = 64;
  int threads = 0;  ///< that read files and decode on the CPU, 0: one for each core
  /// That hand batches to the GPU and wait for them, two batches each, 1 to 8; 0: two. One takes less of the host, and
  /// does not always keep all JPEG units busy. They stay off the CPU that the units interrupt (docs/pictures.md).
  int gpu_threads = 0;
  /// Device memory for the decoded pixels of one of the batches in flight, at least 0; nothing: 256 MiB, or 4 MiB for
  /// each picture of a batch where that is more. Pictures that do not fit beside the others of their batch are decoded
  /// on the CPU.
  std::optional<std::int64_t> max_pixel_bytes;
  /// The file of nvJPEG. Empty: libnvjpeg.so.13, .12 or .so as the dynamic linker finds it, or that of the CUDA Toolkit
  /// that built the library.
  std::filesystem::path nvjpeg_library;
  /// Called after each batch by the thread that takes results. What it throws passes through, and ends the run.
  std::function<void(const Progress&)> progress;
  std::stop_token stop;  ///< ends a run between two results: it is then Report::stopped
  LogCallback log;       ///< called by the constructor only; may be empty
};

/// What a run did and where its time went.
struct Report {
  std::size_t pictures = 0;  ///< results that were handed out
  std::size_t failed = 0;
  std::size_t by_cpu = 0;  ///< decoded by Decoder::Cpu, and so on
  std::size_t by_units = 0;
  std::size_t by_sms = 0;
  std::size_t decoded_again = 0;  ///< of by_cpu: those that nvJPEG had left undone
  bool stopped = false;           ///< before the source's end
  /// Milliseconds. Of all reading threads together: reading, and looking at or decoding what was read; of the GPU or
  /// the session: decoding in batches, resizing, network. Batches in flight share the GPU, so that theirs overlap.
  double read_ms = 0;
  double host_decode_ms = 0;
  double units_ms = 0;
  double resize_ms = 0;
  double network_ms = 0;
  double wall_ms = 0;  ///< from classify() to the last result so far
};

/// Bytes that a classifier holds, at most, beside the engine and what nvJPEG takes for itself.
struct ClassifierMemory {
  std::int64_t device_bytes = 0;
  std::int64_t host_bytes = 0;     ///< prepared pictures and results, page-locked with a GPU
  std::int64_t encoded_bytes = 0;  ///< of encoded pictures that wait, at DecodeOptions::max_bytes each
  std::int64_t session_bytes = 0;  ///< MemoryReport of the sessions, without the weights
};

class Run;

/// Classifies pictures with an engine of any backend: decoding, resizing and the network overlap. With a GPU engine and
/// nvJPEG, pictures go from encoded bytes to scores on that GPU. One classifier is for one GPU; several share an engine
/// or have their own. It makes its sessions itself.
///
/// Thread-safe but for this: one run at a time. A second classify() before the first Run is gone throws
/// Error(invalid_argument). classify_one() may be called beside a run, and from several threads, which take turns.
class MOBICUDA_API Classifier {
 public:
  /// Throws Error(invalid_argument) on options out of range, Error(unsupported) where the engine reads no pictures of
  /// three channels, Error(device_unavailable) as DecodeOn says, Error(out_of_memory).
  explicit Classifier(std::shared_ptr<const Engine> engine, ClassifierOptions options = {});
  Classifier(Classifier&&) noexcept;
  Classifier& operator=(Classifier&&) noexcept;
  ~Classifier();

  /// Classifies what a source holds. Work begins at once, by threads of its own, a few batches ahead of the results
  /// that were taken and no further.
  Run classify(PictureSource source);

  /// One picture, in the calling thread: the fastest way for one at a time. A picture that cannot be decoded is a
  /// result with a failure. Throws as Run::next() does.
  Result classify_one(std::span<const std::uint8_t> encoded, std::string name = {});

  const ClassifierOptions& options() const noexcept;
  const Preprocessing& preprocessing() const noexcept;
  /// Whether nvJPEG decodes, and with what: Decoder::NvjpegUnits, NvjpegSms or Cpu.
  Decoder decoder() const noexcept;
  ClassifierMemory memory() const;

 private:
  friend class Run;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The results of a source, in its order, as they come: an input range. Destroying it ends what is under way. The
/// classifier must outlive it. Not thread-safe, but for stop().
class MOBICUDA_API Run {
 public:
  class Iterator {
   public:
    // NOLINTBEGIN(readability-identifier-naming): the standard library's names
    using iterator_category = std::input_iterator_tag;
    using value_type = Result;
    using difference_type = std::ptrdiff_t;
    using pointer = const Result*;
    using reference = const Result&;
    // NOLINTEND(readability-identifier-naming)

    reference operator*() const { return *run_->current_; }
    pointer operator->() const { return &*run_->current_; }
    Iterator& operator++() {
      run_->current_ = run_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !run_->current_.has_value(); }

   private:
    friend class Run;
    explicit Iterator(Run& run) : run_(&run) {}
    Run* run_;
  };

  Run(Run&&) noexcept;
  Run& operator=(Run&&) = delete;
  ~Run();

  /// The next result; nothing after the last, or once stopped. Throws Error where more than a picture failed: the GPU's
  /// or the host's memory, the device, the network; and what ClassifierOptions::progress throws. The run is over then.
  std::optional<Result> next();
  Iterator begin() {
    current_ = next();
    return Iterator(*this);
  }
  std::default_sentinel_t end() const noexcept { return {}; }

  void stop() noexcept;  ///< thread-safe: next() gives nothing more
  Report report() const;

 private:
  friend class Classifier;
  class Impl;
  explicit Run(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
  std::optional<Result> current_;
};

}  // namespace mobicuda::pictures
