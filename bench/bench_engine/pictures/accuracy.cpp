#include "bench_engine/pictures/accuracy.h"

#include <algorithm>
#include <map>

#include <mobicuda/error.h>

#include "bench_engine/pictures/per_class.h"
#include "bench_engine/pictures/pipeline_rates.h"
#include "bench_engine/process/clock.h"
#include "bench_engine/tensors/compare.h"

namespace mobicuda::bench {
namespace {

constexpr std::size_t kTop = 5;

// Sums of one classifier over all batches.
struct Tally {
  AccuracyResult result;
  Comparer with_reference;
  Comparer with_reference_file;
  ConfusionCounter confusion;
  ConfusionCounter confusion_file;
  std::map<std::size_t, ClassHits> by_class;
};

class Evaluation {
 public:
  Evaluation(const ImageSet& set, std::span<const Classifier> classifiers, const ImageRun& run)
      : set_(set), classifiers_(classifiers), run_(run), tallies_(classifiers.size()) {
    logits_.resize(classifiers.size(), std::vector<float>(run.batch * run.classes));
  }

  void add(const PictureBatch& pictures) {
    report_.broken.insert(report_.broken.end(), pictures.broken.begin(), pictures.broken.end());
    if (pictures.samples.empty()) return;
    count_labels(pictures.samples);
    const std::size_t values = pictures.samples.size() * run_.classes;
    for (std::size_t i = 0; i < classifiers_.size(); ++i) {
      const auto start = Clock::now();
      classify(classifiers_[i], pictures, std::span(logits_[i]).first(values));
      tallies_[i].result.inference_ms += since_ms(start);
    }
    const auto reference = std::span<const float>(logits_[run_.reference]).first(values);
    for (std::size_t i = 0; i < classifiers_.size(); ++i) {
      count(pictures.samples, std::span<const float>(logits_[i]).first(values), reference, tallies_[i]);
    }
  }

  ImageReport result() {
    for (const auto& [index, pictures] : class_pictures_) {
      report_.classes.push_back({index, class_name(set_.labels, index), pictures});
    }
    for (std::size_t i = 0; i < classifiers_.size(); ++i) report_.results.push_back(result_of(i));
    return std::move(report_);
  }

 private:
  void count_labels(std::span<const Sample> samples) {
    report_.evaluated += samples.size();
    for (const Sample& sample : samples) {
      if (sample.label) {
        ++report_.labelled;
        ++class_pictures_[*sample.label];
      } else if (set_.labels_given) {
        report_.unlabelled.push_back(sample.path);
      }
    }
  }

  void count(std::span<const Sample> samples, std::span<const float> logits, std::span<const float> reference,
             Tally& tally) const {
    tally.with_reference.add(logits, reference, run_.classes);
    tally.confusion.add(logits, reference, run_.classes);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto row = logits.subspan(i * run_.classes, run_.classes);
      if (!set_.reference_rows.empty()) {
        const auto expected = std::span(set_.reference_rows).subspan(samples[i].row * run_.classes, run_.classes);
        tally.with_reference_file.add(row, expected, run_.classes);
        tally.confusion_file.add(row, expected, run_.classes);
      }
      if (!samples[i].label) continue;
      ClassHits& hits = tally.by_class[*samples[i].label];
      hits.top1 += in_top(row, *samples[i].label, 1) ? 1 : 0;
      hits.top5 += in_top(row, *samples[i].label, kTop) ? 1 : 0;
    }
  }

  AccuracyResult result_of(std::size_t index) {
    Tally& tally = tallies_[index];
    AccuracyResult& result = tally.result;
    result.implementation = classifiers_[index].implementation;
    result.precision = classifiers_[index].precision;
    result.threads = classifiers_[index].threads;
    for (const ClassCount& one : report_.classes) {
      const ClassHits& hits = tally.by_class[one.index];
      result.by_class.push_back(hits);
      result.top1 += hits.top1;
      result.top5 += hits.top5;
    }
    if (index != run_.reference) {
      result.with_reference = tally.with_reference.result();
      result.confusion = tally.confusion.result(set_.labels);
    }
    if (!set_.reference_rows.empty()) {
      result.with_reference_file = tally.with_reference_file.result();
      result.confusion_file = tally.confusion_file.result(set_.labels);
    }
    return std::move(result);
  }

  const ImageSet& set_;
  const std::span<const Classifier> classifiers_;
  const ImageRun run_;
  std::vector<Tally> tallies_;
  std::vector<std::vector<float>> logits_;  // by classifier
  std::map<std::size_t, std::int64_t> class_pictures_;
  ImageReport report_;
};

void add_rates(const ImageSet& set, std::span<const Classifier> classifiers, const ImageRun& run,
               const std::function<bool()>& stop, ImageReport& report) {
  const PipelineRates rates =
      measure_pipeline(set, classifiers, run.batch, run.classes, run.decode_threads, run.decode, stop);
  report.decode_rate = rates.decode;
  for (std::size_t i = 0; i < classifiers.size(); ++i) {
    report.results[i].inference_rate = rates.inference[i];
    report.results[i].pipeline_rate = rates.pipeline[i];
    report.results[i].pipeline_decoder = rates.decoders[i];
  }
}

}  // namespace

ImageReport evaluate_images(const ImageSet& set, std::span<const Classifier> classifiers, const ImageRun& run,
                            const std::function<bool(std::size_t done)>& stop) {
  Evaluation evaluation(set, classifiers, run);
  const auto start = Clock::now();
  double decode_ms = 0;
  {
    SampleStream stream(set, run.batch, run.decode_threads);
    for (std::size_t done = 0; done < set.samples.size() && !stop(done); done += run.batch) {
      evaluation.add(*stream.next());
    }
    decode_ms = stream.busy_ms();
  }
  const double wall_ms = since_ms(start);
  ImageReport report = evaluation.result();
  report.folder = set.folder.string();
  report.preprocessing = set.preprocessing.describe();
  report.batch = static_cast<std::int64_t>(run.batch);
  report.found = set.samples.size();
  report.decode_threads = pictures::decoding_threads(static_cast<int>(run.decode_threads));
  report.decode_ms = decode_ms;
  report.wall_ms = wall_ms;
  if (run.measure_rates) {
    const std::size_t all = set.samples.size();
    add_rates(
        set, classifiers, run, [&] { return stop(all); }, report);
  }
  return report;
}

void require_decoded(const ImageReport& report) {
  if (report.evaluated > 0 || report.broken.empty()) return;
  const auto& [path, reason] = report.broken.front();
  throw Error(
      ErrorCode::io, "--images " + report.folder,
      "none of its " + std::to_string(report.found) + " files can be decoded; the first, " + path + ": " + reason,
      "name a folder of JPEG, PNG, BMP or PNM files");
}

}  // namespace mobicuda::bench
