#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/pictures.h>

#include "triton/metrics.h"
#include "triton/model_file.h"
#include "triton/settings.h"

namespace mobicuda::triton {

/// What model.h needs to know of a version of a model: where it is, and what its configuration says.
struct ModelPlace {
  std::string name;
  std::uint64_t version = 1;
  std::filesystem::path folder;  ///< the version's
  bool complete = true;          ///< what the configuration leaves open may be filled in
  std::int64_t usual_batch = 1;  ///< max_batch_size where neither configuration nor file has one
};

/// The most images of a run that sessions are made ready for ahead: they keep 128 captured runs, and each number of
/// images takes two (Session::warm_up()), from their own input and from their staged memory.
inline constexpr std::int64_t kMostWarmBatches = 128 / 2;

/// Memory of an engine, as the metrics page has it, while the engine is there.
class EngineInUse {
 public:
  EngineInUse(std::shared_ptr<const Engine> engine, const Metrics& metrics, const Labels& labels);
  ~EngineInUse();
  EngineInUse(const EngineInUse&) = delete;
  EngineInUse& operator=(const EngineInUse&) = delete;

  const std::shared_ptr<const Engine>& engine() const noexcept { return engine_; }
  /// A session came (1) or went (-1).
  void count_session(int change) const noexcept;

 private:
  std::shared_ptr<const Engine> engine_;
  MemoryReport memory_;
  Metric weights_;
  Metric sessions_;
};

/// One version of a model: its file, its settings, and an engine for each processor that all instances there share.
class Model {
 public:
  /// Completes `config` where the place allows it, and checks it. Throws Error.
  Model(ModelPlace place, Json& config, const Metrics& metrics);

  const Settings& settings() const noexcept { return settings_; }
  InputKind input_kind() const noexcept { return kind_; }
  const Tensor& input() const noexcept { return input_; }
  const ModelFile& file() const noexcept { return file_; }
  std::int64_t max_batch() const noexcept { return max_batch_; }
  const std::string& where() const noexcept { return where_; }

  /// The engine of a processor, made where it is missing. Thread-safe.
  std::shared_ptr<const EngineInUse> engine(const Processor& processor);

  /// Of requests that wait.
  Metric waiting_requests() const;
  void count_failed_request() const noexcept { failed_requests_.add(1); }
  void count_decoded(pictures::Decoder decoder) const noexcept;

 private:
  ModelPlace place_;
  std::string where_;
  const Metrics& metrics_;
  Settings settings_;
  ModelFile file_;
  InputKind kind_ = InputKind::Floats;
  Tensor input_;
  std::int64_t max_batch_ = 1;
  Metric failed_requests_;
  std::map<pictures::Decoder, Metric> decoded_;
  std::mutex mutex_;
  std::map<Processor, std::shared_ptr<const EngineInUse>> engines_;
};

}  // namespace mobicuda::triton
