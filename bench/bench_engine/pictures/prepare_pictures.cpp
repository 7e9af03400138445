#include "bench_engine/pictures/prepare_pictures.h"

#include <algorithm>
#include <fstream>

#include <mobicuda/error.h>

#include "bench_engine/model/exit_codes.h"
#include "bench_engine/pictures/dataset.h"

namespace mobicuda::bench {
namespace {

void prepare_reference(const Options& options, std::size_t classes, ImageSet& images) {
  images.reference_rows = load_rows(options.reference_logits, classes);
  if (!options.reference_list.empty()) {
    std::ifstream list(options.reference_list);
    assign_rows(images.samples, list, options.reference_list.string());
  }
  const std::size_t rows = images.reference_rows.size() / classes;
  const auto last = std::max_element(images.samples.begin(), images.samples.end(),
                                     [](const Sample& a, const Sample& b) { return a.row < b.row; });
  if (last->row >= rows) {
    throw UsageError("--referenceLogits has " + std::to_string(rows) + " rows, --images needs " +
                     std::to_string(last->row + 1));
  }
}

}  // namespace

ImageSet prepare_pictures(const Options& options, const ModelInfo& model) {
  ImageSet images;
  const auto classes = static_cast<std::size_t>(model.classes());
  images.folder = options.images;
  try {
    images.preprocessing = pictures::Preprocessing::for_input(model.input, *options.normalization);
  } catch (const Error& error) {
    throw UsageError("--images: " + error.message());
  }
  images.bytes = options.pictures;
  Labels& labels = images.labels;
  if (!options.labels.empty()) {
    images.labels_given = true;
    labels = load_labels(options.labels);
    if (labels.classes() != classes) {
      throw UsageError("--labels names " + std::to_string(labels.classes()) + " classes, the model has " +
                       std::to_string(classes));
    }
  }
  images.samples = list_samples(options.images, labels);
  if (!options.reference_logits.empty()) prepare_reference(options, classes, images);
  return images;
}

std::vector<float> first_pictures(const ImageSet& images, std::size_t count, std::size_t threads) {
  ImageSet some = images;
  some.samples.resize(std::min(count, some.samples.size()));
  std::vector<float> pictures;
  if (some.samples.empty()) return pictures;
  SampleStream stream(some, some.samples.size(), threads);
  const PictureBatch& batch = *stream.next();
  pictures.assign(batch.input.begin(), batch.input.end());
  pictures.insert(pictures.end(), batch.bytes.begin(), batch.bytes.end());
  return pictures;
}

}  // namespace mobicuda::bench
