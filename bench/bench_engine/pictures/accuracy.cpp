#include "bench_engine/pictures/accuracy.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace mobicuda::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kTop = 5;

double since_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Some pictures ready for the network: sample i of the chunk is input[i], or has a reason for being absent.
struct Chunk {
  std::span<const Sample> samples;
  std::vector<float> input;
  std::vector<std::uint8_t> pictures;  // in place of `input` where sessions take bytes
  std::vector<std::string> broken;
};

void decode_one(const ImageSet& set, Chunk& chunk, std::size_t i) {
  const std::size_t elements = set.preprocessing.elements();
  try {
    const Picture picture = load_picture(set.folder / chunk.samples[i].path);
    if (set.bytes) {
      preprocess(picture, set.preprocessing, std::span(chunk.pictures).subspan(i * elements, elements));
    } else {
      preprocess(picture, set.preprocessing, std::span(chunk.input).subspan(i * elements, elements));
    }
  } catch (const std::exception& error) {
    chunk.broken[i] = error.what();
  }
}

Chunk decode(const ImageSet& set, std::span<const Sample> samples) {
  Chunk chunk{samples, {}, {}, std::vector<std::string>(samples.size())};
  const std::size_t elements = samples.size() * set.preprocessing.elements();
  if (set.bytes) {
    chunk.pictures.resize(elements);
  } else {
    chunk.input.resize(elements);
  }
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < samples.size(); i = next++) decode_one(set, chunk, i);
  };
  const std::size_t workers = std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), samples.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < workers; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return chunk;
}

// Moves picture `from` to the place of picture `to`.
template <class T>
void move_picture(std::vector<T>& pictures, std::size_t elements, std::size_t from, std::size_t to) {
  if (pictures.empty() || from == to) return;
  std::copy_n(pictures.begin() + static_cast<std::ptrdiff_t>(from * elements), elements,
              pictures.begin() + static_cast<std::ptrdiff_t>(to * elements));
}

// Closes the gaps that broken pictures left, and gives the samples that remain.
std::vector<Sample> keep_whole(Chunk& chunk, std::size_t elements, ImageReport& report) {
  std::vector<Sample> kept;
  for (std::size_t i = 0; i < chunk.samples.size(); ++i) {
    if (!chunk.broken[i].empty()) {
      report.broken.emplace_back(chunk.samples[i].path, chunk.broken[i]);
      continue;
    }
    move_picture(chunk.input, elements, i, kept.size());
    move_picture(chunk.pictures, elements, i, kept.size());
    kept.push_back(chunk.samples[i]);
  }
  if (!chunk.input.empty()) chunk.input.resize(kept.size() * elements);
  if (!chunk.pictures.empty()) chunk.pictures.resize(kept.size() * elements);
  return kept;
}

// Sums of one classifier over all chunks.
struct Tally {
  AccuracyResult result;
  Comparer with_reference;
  Comparer with_reference_file;
};

void count(std::span<const Sample> samples, std::span<const float> logits, std::span<const float> reference,
           const ImageSet& set, std::size_t classes, Tally& tally) {
  tally.with_reference.add(logits, reference, classes);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto row = logits.subspan(i * classes, classes);
    if (!set.reference_rows.empty()) {
      tally.with_reference_file.add(row, std::span(set.reference_rows).subspan(samples[i].row * classes, classes),
                                    classes);
    }
    if (!samples[i].label) continue;
    tally.result.top1 += in_top(row, *samples[i].label, 1) ? 1 : 0;
    tally.result.top5 += in_top(row, *samples[i].label, kTop) ? 1 : 0;
  }
}

void classify(const Chunk& chunk, std::span<const Sample> samples, const ImageSet& set,
              std::span<const Classifier> classifiers, std::size_t reference, std::size_t classes,
              std::vector<Tally>& tallies) {
  std::vector<std::vector<float>> logits(classifiers.size(), std::vector<float>(samples.size() * classes));
  for (std::size_t i = 0; i < classifiers.size(); ++i) {
    const auto start = Clock::now();
    if (set.bytes) {
      classifiers[i].session->run(chunk.pictures, logits[i]);
    } else {
      classifiers[i].session->run(chunk.input, logits[i]);
    }
    tallies[i].result.inference_ms += since_ms(start);
  }
  for (std::size_t i = 0; i < classifiers.size(); ++i) {
    count(samples, logits[i], logits[reference], set, classes, tallies[i]);
  }
}

void count_labels(std::span<const Sample> samples, bool labels_given, ImageReport& report) {
  report.evaluated += samples.size();
  for (const Sample& sample : samples) {
    if (sample.label) {
      ++report.labelled;
    } else if (labels_given) {
      report.unlabelled.push_back(sample.path);
    }
  }
}

}  // namespace

ImageReport evaluate_images(const ImageSet& set, std::span<const Classifier> classifiers, std::size_t reference,
                            std::size_t batch, std::size_t classes, const std::function<bool(std::size_t done)>& stop) {
  ImageReport report;
  report.folder = set.folder.string();
  report.preprocessing = set.preprocessing.describe();
  report.batch = static_cast<std::int64_t>(batch);
  report.found = set.samples.size();
  std::vector<Tally> tallies(classifiers.size());
  const std::span<const Sample> samples(set.samples);
  for (std::size_t start = 0; start < samples.size() && !stop(start); start += batch) {
    const auto decode_start = Clock::now();
    Chunk chunk = decode(set, samples.subspan(start, std::min(batch, samples.size() - start)));
    const std::vector<Sample> kept = keep_whole(chunk, set.preprocessing.elements(), report);
    report.decode_ms += since_ms(decode_start);
    if (kept.empty()) continue;
    count_labels(kept, set.labels_given, report);
    classify(chunk, kept, set, classifiers, reference, classes, tallies);
  }
  for (std::size_t i = 0; i < classifiers.size(); ++i) {
    AccuracyResult& result = tallies[i].result;
    result.implementation = classifiers[i].implementation;
    result.precision = classifiers[i].precision;
    result.threads = classifiers[i].threads;
    if (i != reference) result.with_reference = tallies[i].with_reference.result();
    if (!set.reference_rows.empty()) result.with_reference_file = tallies[i].with_reference_file.result();
    report.results.push_back(std::move(result));
  }
  return report;
}

}  // namespace mobicuda::bench
