#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/saved_engine.h>

#include "triton/settings.h"

namespace mobicuda::triton {

/// Where an engine runs.
struct Processor {
  std::optional<int> gpu;  ///< nothing: the CPU

  std::string name() const { return gpu ? "gpu" + std::to_string(*gpu) : "cpu"; }
  friend auto operator<=>(const Processor&, const Processor&) = default;
};

/// The model of a version folder, model.onnx or model.plan, and the names of its classes in labels.txt.
class ModelFile {
 public:
  /// Throws Error: invalid_argument, where the folder has none of them, or both, or where one is a link that leads out
  /// of the folder; and what reading and importing throw.
  ModelFile(const std::filesystem::path& version_folder, LogCallback log);

  const std::filesystem::path& path() const noexcept { return path_; }
  /// What requests carry unless the configuration says otherwise.
  InputKind usual_input() const noexcept { return takes_bytes_ ? InputKind::Pixels : InputKind::Floats; }
  /// Throws Error(invalid_argument, unsupported) where the model does not take such inputs.
  Tensor input(InputKind kind) const;
  /// The network's, then those that `top` adds. Throws Error(invalid_argument) where it has fewer classes.
  std::vector<Tensor> outputs(std::int64_t top) const;
  const Tensor& logits() const noexcept { return output_; }
  std::int64_t classes() const noexcept { return classes_; }
  /// Names of the classes; none where there is no labels.txt.
  const std::vector<std::string>& labels() const noexcept { return labels_; }
  /// The most images of a run, where the file is a plan.
  std::optional<std::int64_t> most_images() const noexcept { return most_images_; }

  /// An engine for inputs of `kind` and runs of up to `max_batch` images. Reads the file anew, but the first time.
  /// Thread-safe. Throws what Backend::compile() and restore() do, Error(invalid_argument) on settings that the plan
  /// contradicts.
  std::shared_ptr<const Engine> compile(const Processor& processor, const Settings& settings, InputKind kind,
                                        std::int64_t max_batch) const;

 private:
  struct Content {  // one of the two
    std::optional<Graph> graph;
    std::optional<SavedEngine> plan;
  };

  Content read() const;
  Content take() const;
  std::shared_ptr<const Engine> restore(const SavedEngine& plan, EngineOptions options, const Processor& processor,
                                        const Settings& settings) const;
  void describe(const Content& content);

  std::filesystem::path path_;
  LogCallback log_;
  bool is_plan_ = false;
  bool takes_bytes_ = false;  ///< a plan that was compiled for them
  std::string input_name_;
  TensorDesc floats_;                 ///< what the network reads
  std::optional<TensorDesc> pixels_;  ///< what it reads where it takes bytes
  std::string why_no_pixels_;
  Tensor output_;
  std::int64_t classes_ = 0;
  std::optional<std::int64_t> most_images_;
  std::vector<std::string> labels_;
  mutable std::mutex mutex_;
  mutable std::optional<Content> content_;  ///< until the first engine is made of it
};

}  // namespace mobicuda::triton
