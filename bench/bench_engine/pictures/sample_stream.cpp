#include "bench_engine/pictures/sample_stream.h"

#include <utility>

namespace mobicuda::bench {
namespace {

pictures::StreamOptions options_of(const ImageSet& set, std::size_t batch, std::size_t threads) {
  pictures::StreamOptions options;
  options.preprocessing = set.preprocessing;
  options.bytes = set.bytes;
  options.batch = batch;
  options.threads = static_cast<int>(threads);
  options.decode = decode_options();
  return options;
}

}  // namespace

pictures::PictureSource source_of(const ImageSet& set) {
  std::vector<pictures::PictureFile> files;
  files.reserve(set.samples.size());
  for (const Sample& sample : set.samples) {
    files.push_back({sample.path, set.folder / sample.path, sample.unreadable});
  }
  return pictures::PictureSource::files(std::move(files));
}

pictures::DecodeOptions decode_options() {
  pictures::DecodeOptions options;
  options.orientation = pictures::Orientation::Ignore;
  return options;
}

SampleStream::SampleStream(const ImageSet& set, std::size_t batch, std::size_t threads)
    : set_(set), stream_(source_of(set), options_of(set, batch, threads)) {}

const PictureBatch* SampleStream::next() {
  const pictures::PreparedBatch* const batch = stream_.next();
  if (batch == nullptr) return nullptr;
  current_.samples.clear();
  current_.broken.clear();
  for (const std::size_t index : batch->indices) current_.samples.push_back(set_.samples[index]);
  for (const pictures::FailedPicture& picture : batch->failed) {
    current_.broken.emplace_back(picture.name, picture.reason);
  }
  current_.input = batch->input;
  current_.bytes = batch->bytes;
  return &current_;
}

}  // namespace mobicuda::bench
