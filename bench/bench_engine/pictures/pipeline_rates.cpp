#include "bench_engine/pictures/pipeline_rates.h"

#include <algorithm>
#include <utility>

#include "bench_engine/process/clock.h"

namespace mobicuda::bench {
namespace {

// Until enough is measured.
class Rate {
 public:
  explicit Rate(const std::function<bool()>& stop) : stop_(stop) {}

  bool more() const { return done_ < kRatePictures && ms_ < kRateMs && !stop_(); }
  void add(std::size_t pictures) {
    done_ += pictures;
    ms_ = since_ms(start_);
  }
  double pictures_per_second() const { return ms_ > 0 ? 1e3 * static_cast<double>(done_) / ms_ : 0; }

 private:
  const std::function<bool()>& stop_;
  Clock::time_point start_ = Clock::now();
  std::size_t done_ = 0;
  double ms_ = 0;
};

// Gives every batch of a new stream to `use`. What the threads decode at first is in the time.
template <class Use>
double streamed_rate(const ImageSet& set, std::size_t batch, std::size_t threads, const std::function<bool()>& stop,
                     Use use) {
  Rate rate(stop);
  SampleStream stream(set, batch, threads);
  while (rate.more()) {
    const PictureBatch* pictures = stream.next();
    if (pictures == nullptr) break;
    if (pictures->samples.empty()) continue;
    use(*pictures);
    rate.add(pictures->samples.size());
  }
  return rate.pictures_per_second();
}

// Runs one batch again and again.
template <class Use>
double resident_rate(const ImageSet& set, std::size_t batch, std::size_t threads, const std::function<bool()>& stop,
                     Use use) {
  SampleStream stream(set, batch, threads);
  const PictureBatch* pictures = stream.next();
  while (pictures != nullptr && pictures->samples.empty()) pictures = stream.next();
  if (pictures == nullptr) return 0;
  use(*pictures);  // a batch of this size may be new to the session
  Rate rate(stop);
  while (rate.more()) {
    use(*pictures);
    rate.add(pictures->samples.size());
  }
  return rate.pictures_per_second();
}

// From files to logits on the engine's GPU, decoding included where it can. Files count, broken ones among them. What
// is made at first, nvJPEG's states and memory, is not in the time.
double classified_rate(const ImageSet& set, const Classifier& of, std::size_t batch, std::size_t threads,
                       pictures::DecodeOn decode, const std::function<bool()>& stop, std::string& decoder) {
  pictures::ClassifierOptions options;
  options.normalization = set.preprocessing.normalization;
  options.resize_to = set.preprocessing.resize_to;
  options.decode = decode_options();
  options.decode_on = decode;
  options.outputs = true;
  constexpr std::size_t kMostBatch = 1024;
  options.batch = static_cast<int>(std::min(batch, kMostBatch));
  options.threads = static_cast<int>(threads);
  pictures::Classifier classifier(of.engine, options);
  decoder = to_string(classifier.decoder());
  for (const pictures::Result& result : classifier.classify(source_of(set))) {
    static_cast<void>(result);
    if (stop()) return 0;
  }
  Rate rate(stop);
  while (rate.more()) {
    for (const pictures::Result& result : classifier.classify(source_of(set))) {
      static_cast<void>(result);
      rate.add(1);
      if (!rate.more()) break;
    }
  }
  return rate.pictures_per_second();
}

bool decodes_on_gpu(const Classifier& classifier, pictures::DecodeOn decode) {
  return decode != pictures::DecodeOn::Cpu && classifier.engine && classifier.engine->backend() != "cpu";
}

}  // namespace

PipelineRates measure_pipeline(const ImageSet& set, std::span<const Classifier> classifiers, std::size_t batch,
                               std::size_t classes, std::size_t decode_threads, pictures::DecodeOn decode,
                               const std::function<bool()>& stop) {
  ImageSet first = set;
  first.samples.resize(std::min(first.samples.size(), std::max(kRatePictures, batch)));
  ImageSet one_batch = set;
  one_batch.samples.resize(std::min(set.samples.size(), batch));
  std::vector<float> logits(batch * classes);
  PipelineRates rates;
  rates.decode = streamed_rate(first, batch, decode_threads, stop, [](const PictureBatch&) {});
  for (const Classifier& classifier : classifiers) {
    const auto run = [&](const PictureBatch& pictures) {
      classify(classifier, pictures, std::span(logits).first(pictures.samples.size() * classes));
    };
    rates.inference.push_back(resident_rate(one_batch, batch, decode_threads, stop, run));
    std::string decoder(to_string(pictures::Decoder::Cpu));
    rates.pipeline.push_back(decodes_on_gpu(classifier, decode)
                                 ? classified_rate(first, classifier, batch, decode_threads, decode, stop, decoder)
                                 : streamed_rate(first, batch, decode_threads, stop, run));
    rates.decoders.push_back(std::move(decoder));
  }
  return rates;
}

}  // namespace mobicuda::bench
