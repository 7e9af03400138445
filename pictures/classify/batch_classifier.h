#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/pictures.h>

#include "pictures/stream/batch_loader.h"
#include "pictures/stream/stopwatch.h"

namespace mobicuda::pictures {

/// What became of a picture.
struct Outcome {
  std::string failure;  ///< empty where it was classified
  Decoder decoder = Decoder::None;
  bool decoded_again = false;
  std::vector<ClassScore> best;
  std::vector<float> outputs;
};

/// Times of the stages, over all batches of a run.
struct StageTimes {
  Stopwatch read;
  Stopwatch host_decode;
  Stopwatch units;
  Stopwatch resize;
  Stopwatch network;
};

/// How a batch of encoded pictures becomes one of outcomes, in steps that batches in different slots take at the same
/// time. Slots and workers are numbered from 0.
class BatchClassifier {
 public:
  struct Settings {
    std::size_t batch = 1;  ///< pictures of a slot
    std::size_t slots = 1;
    std::size_t threads = 1;    ///< that load
    std::size_t workers = 1;    ///< that start and finish batches
    std::size_t in_flight = 1;  ///< batches that a worker has started and not finished, at most
    bool waits_idly = true;     ///< sleeps where it waits for the GPU, rather than to look again and again
  };

  virtual ~BatchClassifier() = default;
  BatchClassifier(const BatchClassifier&) = delete;
  BatchClassifier& operator=(const BatchClassifier&) = delete;

  /// Reads a picture, looks at it, and decodes it where that is the CPU's work: for any pictures at the same time, by
  /// threads of different numbers. Faults of the picture become its outcome's failure.
  virtual void load(BatchLoader::Batch& batch, std::size_t place, std::size_t thread, StageTimes& times) = 0;
  /// Called once by each thread of a run that is to start and finish batches as a worker, and that the library made.
  virtual void enter(std::size_t /*worker*/) {}
  /// Begins what is left of a batch whose pictures are all loaded. Batches of different workers at the same time; a
  /// worker finishes its batches in the order in which it started them.
  virtual void start(BatchLoader::Batch& batch, std::size_t worker, StageTimes& times) = 0;
  /// Waits for the outcomes of a batch that the same worker started.
  virtual void finish(BatchLoader::Batch& batch, std::size_t worker, StageTimes& times) = 0;
  /// Waits until nothing of a slot is under way, whatever became of it.
  virtual void abandon(std::size_t slot) noexcept = 0;

  /// Before a run: forgets what a run that was left early has loaded. Nothing is under way.
  virtual void reset() = 0;

  virtual Decoder decoder() const noexcept = 0;
  virtual ClassifierMemory memory() const = 0;

  Outcome& outcome(std::size_t slot, std::size_t place) { return outcomes_[slot][place]; }

 protected:
  explicit BatchClassifier(const Settings& settings)
      : outcomes_(settings.slots, std::vector<Outcome>(settings.batch)) {}

 private:
  std::vector<std::vector<Outcome>> outcomes_;  // by slot
};

/// Decoding and the network on the CPU.
std::unique_ptr<BatchClassifier> make_cpu_classifier(std::shared_ptr<const Engine> engine,
                                                     const ClassifierOptions& options, const Preprocessing& how,
                                                     const BatchClassifier::Settings& settings);

class Nvjpeg;

/// nvJPEG on the engine's device, as ClassifierOptions ask for it; null where the CPU is to decode. Throws as
/// Classifier's constructor does.
std::shared_ptr<const Nvjpeg> find_nvjpeg(const Engine& engine, const ClassifierOptions& options);

/// The network on the GPU, and with `nvjpeg` the decoding of most JPEG files. Throws Error(device_unavailable) where
/// the library was built without CUDA.
std::unique_ptr<BatchClassifier> make_gpu_classifier(std::shared_ptr<const Engine> engine,
                                                     const ClassifierOptions& options, const Preprocessing& how,
                                                     std::shared_ptr<const Nvjpeg> nvjpeg,
                                                     const BatchClassifier::Settings& settings);

/// Fills in the scores of a picture that was classified.
void take_scores(std::span<const float> scores, const ClassifierOptions& options, Outcome& outcome);

}  // namespace mobicuda::pictures
