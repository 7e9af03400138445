#include <algorithm>
#include <type_traits>
#include <utility>

#include "pictures/classify/batch_classifier.h"
#include "pictures/classify/host_decoding.h"

namespace mobicuda::pictures {
namespace {

// T: what the engine takes.
template <class T>
class CpuClassifier final : public BatchClassifier {
 public:
  CpuClassifier(std::shared_ptr<const Engine> engine, const ClassifierOptions& options, const Preprocessing& how,
                const Settings& settings)
      : BatchClassifier(settings),
        engine_(std::move(engine)),
        options_(options),
        how_(how),
        batch_(settings.batch),
        classes_(static_cast<std::size_t>(engine_->output().shape.elements())),
        inputs_(settings.slots, std::vector<T>(settings.batch * how.elements())),
        workers_(settings.workers) {
    for (Worker& worker : workers_) worker = {engine_->create_session(), std::vector<float>(batch_ * classes_)};
  }

  void load(BatchLoader::Batch& batch, std::size_t place, std::size_t /*thread*/, StageTimes& times) override {
    Outcome& result = outcome(batch.slot, place);
    BatchLoader::Item& item = batch.items[place];
    if (!read_picture(item, options_.decode, result, times)) return;
    decode_on_host(item.encoded.span(), options_.decode, how_, picture(batch.slot, place), result, times);
  }

  void start(BatchLoader::Batch& /*batch*/, std::size_t /*worker*/, StageTimes& /*times*/) override {}

  void finish(BatchLoader::Batch& batch, std::size_t worker, StageTimes& times) override {
    auto& [session, scores] = workers_[worker];
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < batch.size; ++i) {
      if (!outcome(batch.slot, i).failure.empty()) continue;
      if (places.size() < i) std::ranges::copy(picture(batch.slot, i), picture(batch.slot, places.size()).begin());
      places.push_back(i);
    }
    {
      const Stopwatch::Span span(times.network);
      const auto most = static_cast<std::size_t>(engine_->options().max_batch);
      for (std::size_t from = 0; from < places.size(); from += most) {
        const std::size_t n = std::min(most, places.size() - from);
        session->run(std::span<const T>(inputs_[batch.slot]).subspan(from * how_.elements(), n * how_.elements()),
                     std::span(scores).subspan(from * classes_, n * classes_));
      }
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      take_scores(std::span<const float>(scores).subspan(i * classes_, classes_), options_,
                  outcome(batch.slot, places[i]));
    }
  }

  void abandon(std::size_t /*slot*/) noexcept override {}
  void reset() override {}

  Decoder decoder() const noexcept override { return Decoder::Cpu; }

  ClassifierMemory memory() const override {
    ClassifierMemory memory;
    const MemoryReport session = engine_->memory();
    memory.host_bytes = static_cast<std::int64_t>(inputs_.size() * batch_ * how_.elements() * sizeof(T) +
                                                  workers_.size() * batch_ * classes_ * sizeof(float));
    memory.encoded_bytes = static_cast<std::int64_t>(inputs_.size() * batch_) * options_.decode.max_bytes;
    memory.session_bytes = static_cast<std::int64_t>(workers_.size()) * (session.total() - session.weight_bytes);
    return memory;
  }

 private:
  struct Worker {
    std::unique_ptr<Session> session;
    std::vector<float> scores;  // of the one batch that it finishes
  };

  std::span<T> picture(std::size_t slot, std::size_t place) {
    return std::span(inputs_[slot]).subspan(place * how_.elements(), how_.elements());
  }

  std::shared_ptr<const Engine> engine_;
  const ClassifierOptions& options_;
  const Preprocessing how_;
  const std::size_t batch_;
  const std::size_t classes_;
  std::vector<std::vector<T>> inputs_;  // by slot
  std::vector<Worker> workers_;
};

}  // namespace

std::unique_ptr<BatchClassifier> make_cpu_classifier(std::shared_ptr<const Engine> engine,
                                                     const ClassifierOptions& options, const Preprocessing& how,
                                                     const BatchClassifier::Settings& settings) {
  if (engine->input().dtype == DType::U8) {
    return std::make_unique<CpuClassifier<std::uint8_t>>(std::move(engine), options, how, settings);
  }
  return std::make_unique<CpuClassifier<float>>(std::move(engine), options, how, settings);
}

}  // namespace mobicuda::pictures
